"""A lock between threads and processes, on a file."""

import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

_POLL_SECONDS = 0.01

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: BinaryIO) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
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


class FileLock:
    """Held within a `with` block by one thread of one process; the system frees it when that process dies.

    Raises TimeoutError when it is not free within `timeout` seconds, OSError when the file cannot be opened.
    The file itself is made when missing, and stays.
    """

    def __init__(self, path: Path, timeout: float = 30.0) -> None:
        self._path, self._timeout = path, timeout
        self._file: BinaryIO | None = None

    def __enter__(self) -> None:
        file = os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        deadline = time.monotonic() + self._timeout
        while not _try_lock(file):
            if time.monotonic() > deadline:
                file.close()
                raise TimeoutError(f"{self._path} is held by another process")
            time.sleep(_POLL_SECONDS)
        self._file = file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            _unlock(self._file)
            self._file.close()
            self._file = None
