"""The hashes of files whose bytes pass by, computed in a thread of their own."""

import hashlib
import threading
from queue import SimpleQueue
from types import TracebackType
from typing import Self

_PENDING = 4  # pieces; what waits for its turn stays in memory


class ByteHashes:
    """Hashes the bytes of several files while whoever reads them goes on.

    A context manager: `see` is an OnBytes for use within it, and `digests` has the results after it. The GIL
    is free while it hashes.
    """

    def __init__(self, files: int) -> None:
        self._hashes = [hashlib.sha256() for _ in range(files)]
        self._queue: SimpleQueue[tuple[int, memoryview] | None] = SimpleQueue()
        self._room = threading.BoundedSemaphore(_PENDING)
        self._thread = threading.Thread(target=self._work, name="rase-hash", daemon=True)

    def see(self, part: int, data: memoryview) -> None:
        """Take the next bytes of a file; waits when hashing falls behind."""
        self._room.acquire()
        self._queue.put((part, data))

    def digests(self) -> tuple[str, ...]:
        """Return the sha256 of every file in lower-case hex."""
        return tuple(digest.hexdigest() for digest in self._hashes)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (piece := self._queue.get()) is not None:
            part, data = piece
            self._hashes[part].update(data)
            del piece, data  # the next one may be long in coming
            self._room.release()
