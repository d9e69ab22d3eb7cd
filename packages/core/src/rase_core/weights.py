"""The files of a model's weights: which they are, and what format they have."""

import re
from pathlib import Path

from rase_core.contents import describe_contents
from rase_core.errors import UnsupportedFormat
from rase_core.manifest import ModelFormat
from rase_core.model_file import open_file, regular_file

_SPLIT = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.IGNORECASE)
GGUF_MAGIC = b"GGUF"
"""The first bytes of every GGUF file."""


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
    with open_file(path) as file:
        start = file.read(64)
    if start.startswith(GGUF_MAGIC):
        return ModelFormat.GGUF
    if path.suffix.lower() == ".safetensors" and start[8:9] == b"{":
        return ModelFormat.SAFETENSORS
    raise UnsupportedFormat(path, describe_contents(start))
