"""A lock between threads and processes, on a file."""

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

POLL_SECONDS = 0.01

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: BinaryIO) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _unlock(file: BinaryIO) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(file: BinaryIO) -> bool:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(file: BinaryIO) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_UN)


class LockHeld(TimeoutError):
    """Another thread or process holds the lock, and did not give it up in time."""


class FileLock:
    """Held by one thread of one process; the system frees it when that process dies.

    A `with` block waits for it, up to `timeout` seconds, then raises LockHeld. The file itself is made when
    missing, and stays; OSError when it cannot be opened or locked.
    """

    def __init__(self, path: Path, timeout: float = 30.0) -> None:
        self._path, self._timeout = path, timeout
        self._file: BinaryIO | None = None

    def __enter__(self) -> None:
        deadline = time.monotonic() + self._timeout
        while not self.acquire():
            if time.monotonic() > deadline:
                raise LockHeld(f"{self._path} is held by another process")
            time.sleep(POLL_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> bool:
        """Take the lock if it is free, and tell whether it was."""
        with ExitStack() as closing:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            file = closing.enter_context(os.fdopen(descriptor, "r+b", buffering=0))
            if not _try_lock(file):
                return False
            closing.pop_all()
            self._file = file
            return True

    def release(self) -> None:
        """Give the lock up, if it is held."""
        if self._file is not None:
            _unlock(self._file)
            self._file.close()
            self._file = None
