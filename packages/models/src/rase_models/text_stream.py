"""An answer as an iterator of texts, generated in a thread of its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from rase_core.generation import Generation

from rase_models.request import OnText
from rase_models.session import IsCancelled

Generate = Callable[[OnText, IsCancelled], Generation]


@dataclass(frozen=True, slots=True)
class _End:
    """The last item: how it ended."""

    generation: Generation | None
    error: BaseException | None = None


class TextStream(Iterator[str]):
    """The texts of one answer as they come; what fails in between is raised by the iteration.

    A context manager: leaving it early, `close`, or forgetting the stream ends the generation at its next
    token. For use by one thread.
    """

    def __init__(self, generate: Generate) -> None:
        self._items: SimpleQueue[str | _End] = SimpleQueue()
        self._stop = threading.Event()
        self._end: _End | None = None
        self._thread = threading.Thread(
            target=_produce, args=(generate, self._items, self._stop), name="rase-generate", daemon=True
        )
        self._thread.start()

    @property
    def generation(self) -> Generation | None:
        """The whole answer once the stream has ended; None before, and when it failed."""
        return self._end.generation if self._end is not None else None

    def close(self) -> None:
        """End the generation and wait until it has; `generation` has what was generated."""
        self._stop.set()
        self._drain()
        self._thread.join()

    def __next__(self) -> str:
        if self._end is not None:
            raise StopIteration
        item = self._items.get()
        if isinstance(item, str):
            return item
        self._end = item
        self._thread.join()
        if item.error is not None:
            raise item.error
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # the thread may have failed to start
            self._stop.set()

    def _drain(self) -> None:
        while self._end is None:
            item = self._items.get()
            if isinstance(item, _End):
                self._end = item


def _produce(generate: Generate, items: SimpleQueue[str | _End], stop: threading.Event) -> None:
    try:
        items.put(_End(generate(items.put, stop.is_set)))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the reader of the stream raises it
        items.put(_End(None, error))
