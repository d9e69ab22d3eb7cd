"""Writing a file so that a crash leaves the old or the new content, whole."""

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

_TEMPORARY = ".tmp"
_ATTEMPTS = 50
_PAUSE_SECONDS = 0.02


def write_file(path: Path, content: bytes) -> None:
    """Replace a file's content at once and durably.

    Raises OSError: the old content is intact then, or the new one is there and may be lost in a power cut.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}{_TEMPORARY}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file durably, if it is there. Raises OSError."""
    path.unlink(missing_ok=True)
    _sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left of their writes; only while nobody writes to the folder."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        path.unlink(missing_ok=True)


def _replace(temporary: Path, path: Path) -> None:
    for _ in range(_ATTEMPTS if os.name == "nt" else 1):
        try:
            temporary.replace(path)
        except PermissionError:
            if os.name != "nt":
                raise
            time.sleep(_PAUSE_SECONDS)  # Windows refuses while another process reads the old file
        else:
            return
    temporary.replace(path)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
