"""A GGUF model, one file or split into several: its metadata, its tensor table and its bytes."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from rase_core.contents import describe_contents
from rase_core.errors import InvalidGguf, UnsupportedFormat
from rase_core.model_file import open_file
from rase_core.weights import GGUF_MAGIC

from rase_models.gguf.metadata import MetadataValue, TypedMetadata
from rase_models.gguf.parts import check_present, check_split, join_tensors, split_paths
from rase_models.gguf.reader import Header, read_header
from rase_models.gguf.tensor import TensorInfo, Weight

OnBytes = Callable[[int, memoryview], None]
"""Called with the index of a part and its next bytes, a view that must not be written to.

The memory is not used again: another thread may read it later, as long as nobody writes to the weight.
"""

PIECE = 1 << 24
"""The most bytes of one read, so that `on_bytes` starts early."""


@dataclass(frozen=True, slots=True, eq=False)
class GgufFile(TypedMetadata):
    """A model's header, read and checked.

    Attributes:
        path: the file that was opened.
        parts: all files of the model, in order; (path,) when it is not split.
        sizes: their lengths in bytes.
        version, alignment, metadata: those of the first part.
        tensors: by name, in the order of their bytes.
    """

    path: Path
    parts: tuple[Path, ...]
    sizes: tuple[int, ...]
    version: int
    alignment: int
    metadata: Mapping[str, MetadataValue]
    tensors: Mapping[str, TensorInfo]

    @property
    def architecture(self) -> str:
        """The value of `general.architecture`."""
        return self.string("general.architecture")

    def read(self, name: str) -> NDArray[np.uint8]:
        """Return the bytes of one tensor, uint8 [nbytes]; InvalidGguf when the file has no such tensor."""
        info = self.tensors.get(name)
        if info is None:
            raise InvalidGguf(self.path, f"tensor {name!r} is missing")
        with open_file(self.parts[info.part]) as file:
            file.seek(info.offset)
            return _read_tensor(self.parts[info.part], file, info, _ignore)

    def weights(self, on_bytes: OnBytes | None = None) -> Iterator[Weight]:
        """Read every tensor, in file order and in one pass, each into a buffer of its own.

        `on_bytes` sees every byte of every part in order, the header and the gaps too, so that a hash of the
        files comes of the same pass. Raises InvalidGguf when a file's length has changed since it was opened.
        """
        for part in range(len(self.parts)):
            yield from self._part_weights(part, on_bytes)

    def _part_weights(self, part: int, on_bytes: OnBytes | None) -> Iterator[Weight]:
        path, size = self.parts[part], self.sizes[part]
        see = _ignore if on_bytes is None else lambda data: on_bytes(part, data)
        with open_file(path) as file:
            _check_size(path, file, size)
            for info in [tensor for tensor in self.tensors.values() if tensor.part == part]:
                _pass_over(path, file, info.offset, see)
                yield Weight(info, _read_tensor(path, file, info, see))
            _pass_over(path, file, size, see)
            _check_size(path, file, size)


def open_gguf(path: Path | str) -> GgufFile:
    """Read and check the header of a GGUF model; from any part of a split one, all its parts.

    No weights are read. Raises ModelFileNotFound for a file that cannot be read; UnsupportedFormat when it
    is not a little-endian GGUF of version 2 or 3; InvalidGguf when it breaks the format.
    """
    path = Path(path)
    parts = split_paths(path)
    check_present(parts)
    headers = [_read_part(file, part) for part, file in enumerate(parts)]
    check_split(parts, headers)
    first = headers[0]
    return GgufFile(
        path=path,
        parts=parts,
        sizes=tuple(header.size for header in headers),
        version=first.version,
        alignment=first.alignment,
        metadata=MappingProxyType(first.metadata),
        tensors=MappingProxyType(join_tensors(parts, headers)),
    )


def _read_part(path: Path, part: int) -> Header:
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(64)
        if not head.startswith(GGUF_MAGIC):
            raise UnsupportedFormat(path, describe_contents(head))
        file.seek(0)
        return read_header(path, file, size, part)


def _check_size(path: Path, file: BufferedReader, size: int) -> None:
    found = os.fstat(file.fileno()).st_size
    if found != size:
        raise InvalidGguf(path, f"the file had {size} bytes when it was opened and now has {found}")


def _read_tensor(
    path: Path, file: BufferedReader, info: TensorInfo, see: Callable[[memoryview], None]
) -> NDArray[np.uint8]:
    data = np.empty(info.nbytes, np.uint8)
    _fill(path, file, data.data, see)
    return data


def _pass_over(path: Path, file: BufferedReader, end: int, see: Callable[[memoryview], None]) -> None:
    """Go to an offset at or after the current one, showing the bytes between."""
    if see is _ignore:
        file.seek(end)
    while (gap := end - file.tell()) > 0:
        _fill(path, file, memoryview(bytearray(min(gap, PIECE))), see)


def _fill(path: Path, file: BufferedReader, view: memoryview, see: Callable[[memoryview], None]) -> None:
    done = 0
    while done < len(view):
        piece = view[done : done + PIECE]
        count = file.readinto(piece)
        if not count:
            raise InvalidGguf(path, "the file became shorter while it was read", offset=file.tell())
        see(piece[:count])
        done += count


def _ignore(data: memoryview) -> None:
    """See nothing."""
