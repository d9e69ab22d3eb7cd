"""The sha256 of large files."""

import hashlib
import os
from pathlib import Path

from rase_core.model_file import open_file
from rase_core.progress import Progress, ProgressEvent, ProgressPhase

_BUFFER = 1 << 20  # stays in a core's cache between the read and the hash


def hash_file(path: Path, progress: Progress | None = None) -> tuple[str, int]:
    """Return the sha256 in lower-case hex and the size in bytes of what was read.

    The GIL is free while it reads and hashes. `progress` hears of every MiB, and what it raises ends the
    work, whatever it is. Raises ModelFileNotFound when the file cannot be read.
    """
    digest, done = hashlib.sha256(), 0
    buffer = memoryview(bytearray(_BUFFER))
    with open_file(path) as file:
        total = os.fstat(file.fileno()).st_size
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
            done += count
            if progress is not None:
                progress(ProgressEvent(ProgressPhase.HASH, path.name, done, total))
    return digest.hexdigest(), done
