"""The files of a model's weights: which they are, and what format they have."""

import os
import re
import stat
from pathlib import Path

from rase_core.errors import ModelFileNotFound, UnsupportedFormat
from rase_core.manifest import ModelFormat

_SPLIT = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.IGNORECASE)
_GGUF_MAGIC = b"GGUF"


def regular_file(path: Path) -> Path:
    """Return the absolute path of a file that exists and can be read; symbolic links on the way are kept.

    Raises ModelFileNotFound with the reason otherwise.
    """
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve would follow the links
    try:
        mode = absolute.stat().st_mode
    except (OSError, ValueError) as error:
        raise ModelFileNotFound(absolute, getattr(error, "strerror", None) or str(error)) from error
    if not stat.S_ISREG(mode):
        raise ModelFileNotFound(absolute, "is a folder" if stat.S_ISDIR(mode) else "is not a regular file")
    if not os.access(absolute, os.R_OK):
        raise ModelFileNotFound(absolute, "may not be read")
    return absolute


def split_parts(name: str) -> tuple[str, ...]:
    """Return the names of all parts of a split GGUF (`NAME-00001-of-00003.gguf`), or just the name."""
    match = _SPLIT.fullmatch(name)
    if match is None:
        return (name,)
    count = int(match["count"])
    if not 1 <= int(match["part"]) <= count:
        return (name,)
    return tuple(
        f"{match['stem']}-{part:05}-of-{match['count']}{match['suffix']}" for part in range(1, count + 1)
    )


def weights_files(path: Path) -> tuple[Path, ...]:
    """Return the absolute paths of a model's weights, all parts in order when `path` is one of several.

    Raises ModelFileNotFound naming the part that is missing.
    """
    given = regular_file(path)
    return tuple(regular_file(given.with_name(name)) for name in split_parts(given.name))


def weights_format(path: Path) -> ModelFormat:
    """Return the format that a file's first bytes show. Raises UnsupportedFormat."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise ModelFileNotFound(path, error.strerror or str(error)) from error
    if start.startswith(_GGUF_MAGIC):
        return ModelFormat.GGUF
    if path.suffix.lower() == ".safetensors" and start[8:9] == b"{":
        return ModelFormat.SAFETENSORS
    raise UnsupportedFormat(path, f"it starts with {start!r}" if start else "it is empty")
