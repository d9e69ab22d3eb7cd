"""What a caller's own callbacks raise, which is nobody else's fault."""

from collections.abc import Callable
from typing import ParamSpec, Self

P = ParamSpec("P")


class CallerFaults:
    """Tells whether an error comes of a callback, wherever it is caught; a context manager, for as long."""

    def __init__(self) -> None:
        self._raised: list[BaseException] = []

    def __contains__(self, error: object) -> bool:
        return any(raised is error for raised in self._raised)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._raised.clear()  # an error that is kept keeps the frames that it went through

    def noting(self, callback: Callable[P, object] | None) -> Callable[P, None] | None:
        """Return a callback with a note of what it raises."""
        if callback is None:
            return None

        def call(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                callback(*args, **kwargs)
            except BaseException as error:
                self._raised.append(error)
                raise

        return call
