"""The sha256 of large files."""

import hashlib
import os
from pathlib import Path

from rase_core.errors import ModelFileNotFound
from rase_core.progress import Progress, ProgressEvent, ProgressPhase

_BUFFER = 1 << 20  # stays in a core's cache between the read and the hash


def hash_file(path: Path, progress: Progress | None = None) -> tuple[str, int]:
    """Return the sha256 in lower-case hex and the size in bytes of what was read.

    The GIL is free while it reads and hashes. `progress` hears of every MiB, and what it raises ends the
    work. Raises ModelFileNotFound when the file cannot be read.
    """
    digest, done = hashlib.sha256(), 0
    buffer = memoryview(bytearray(_BUFFER))
    try:
        with path.open("rb", buffering=0) as file:
            total = os.fstat(file.fileno()).st_size
            while count := file.readinto(buffer):
                digest.update(buffer[:count])
                done += count
                if progress is not None:
                    progress(ProgressEvent(ProgressPhase.HASH, path.name, done, total))
    except OSError as error:
        raise ModelFileNotFound(path, error.strerror or str(error)) from error
    return digest.hexdigest(), done
