"""What is to be closed when it cannot be used after all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar


class Closable(Protocol):
    """Something that has to be closed."""

    def close(self) -> None:
        """Let go of what it holds."""


C = TypeVar("C", bound=Closable)


@contextmanager
def closed_on_error(thing: C) -> Iterator[C]:
    """Give a thing, which is closed if what is done with it fails."""
    try:
        yield thing
    except BaseException:
        thing.close()
        raise
