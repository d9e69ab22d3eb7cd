"""A file of a model: weights, a tokenizer or a template."""

import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from rase_core.errors import ModelFileNotFound, TooManyOpenFiles
from rase_core.open_files import is_full

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def regular_file(path: Path) -> Path:
    """Return the absolute path of a file that exists and can be read; symbolic links on the way are kept.

    Raises ModelFileNotFound with the reason otherwise.
    """
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve would follow the links
    try:
        mode = absolute.stat().st_mode
    except (OSError, ValueError) as error:
        raise unreadable(absolute, error) from error
    if reason := irregularity(mode):
        raise ModelFileNotFound(absolute, reason)
    if not os.access(absolute, os.R_OK):
        raise ModelFileNotFound(absolute, "may not be read")
    return absolute


def irregularity(mode: int) -> str | None:
    """Say what is wrong with the `st_mode` of something that must be a regular file, None if it is one."""
    if stat.S_ISREG(mode):
        return None
    return "is a folder" if stat.S_ISDIR(mode) else "is not a regular file"


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading; one of another kind might never answer.

    Raises ModelFileNotFound with the reason when it cannot be read, now or by the reader that is returned.
    """
    try:
        return BufferedReader(_Content(regular_file(path)))
    except OSError as error:
        raise unreadable(path, error) from error


class _Content(FileIO):
    """The bytes of a file; what the disk fails to give is named."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise unreadable(self._path, error) from error

    def readall(self) -> bytes:
        try:
            return super().readall()
        except OSError as error:
            raise unreadable(self._path, error) from error


def unreadable(path: Path, error: OSError | ValueError) -> ModelFileNotFound | TooManyOpenFiles:
    """Return what to raise for an error of the system's while a file is looked at or read."""
    if is_full(error):
        return TooManyOpenFiles(path)
    return ModelFileNotFound(path, getattr(error, "strerror", None) or str(error))
