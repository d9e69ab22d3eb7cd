"""The sha256 of files, each computed once as long as the file stays as it is."""

from pathlib import Path
from typing import NamedTuple

from rase_core.fork_safe import ForkSafeLock
from rase_core.hashing import hash_file
from rase_core.progress import Progress


class _Stamp(NamedTuple):
    modified: int
    size: int


class FileDigests:
    """Remembers a file's hash until its length or its time of change is another. Thread-safe.

    Whoever must not be deceived hashes the file itself: both can be set to what they were.
    """

    def __init__(self) -> None:
        self._known: dict[Path, tuple[_Stamp, str]] = {}
        self._mutex = ForkSafeLock()

    def digest(self, path: Path, progress: Progress | None = None) -> str:
        """Return the sha256 of a file in lower-case hex. Raises ModelFileNotFound."""
        stamp = _stamp(path)
        with self._mutex:
            known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        digest, _ = hash_file(path, progress)
        if stamp is not None:
            with self._mutex:
                self._known[path] = (stamp, digest)
        return digest


def _stamp(path: Path) -> _Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None  # hashing the file says what is wrong with it
    return _Stamp(status.st_mtime_ns, status.st_size)
