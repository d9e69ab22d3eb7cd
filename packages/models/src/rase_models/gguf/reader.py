"""Parse the header of one GGUF file: version, metadata and tensor table, each field checked before use."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from rase_core.errors import InvalidGguf, UnsupportedFormat
from rase_core.weights import GGUF_MAGIC

from rase_models.gguf.cursor import Cursor
from rase_models.gguf.metadata import MetadataValue, NumberArray, describe_value
from rase_models.gguf.tensor import TensorInfo
from rase_models.gguf.types import TYPE_LAYOUTS, GgmlType, ValueType

VERSIONS = (2, 3)
MAX_DIMENSIONS = 4
MAX_KEY = 65535
MAX_ENTRIES = 1 << 16
MAX_TENSORS = 1 << 18
MAX_TENSOR_NAME = 256
DEFAULT_ALIGNMENT = 32

_SMALLEST_ENTRY = 8 + 4 + 1  # of the metadata: a length, a type and one byte
_SMALLEST_TENSOR = 8 + 4 + 8 + 4 + 8  # a length, a count, one dimension, a type and an offset

_NUMBERS: Mapping[ValueType, str] = {
    ValueType.UINT8: "<u1",
    ValueType.INT8: "<i1",
    ValueType.UINT16: "<u2",
    ValueType.INT16: "<i2",
    ValueType.UINT32: "<u4",
    ValueType.INT32: "<i4",
    ValueType.FLOAT32: "<f4",
    ValueType.BOOL: "|u1",
    ValueType.UINT64: "<u8",
    ValueType.INT64: "<i8",
    ValueType.FLOAT64: "<f8",
}


@dataclass(frozen=True, slots=True)
class Header:
    """What one file says before its tensors' bytes; offsets are from the start of the file."""

    version: int
    alignment: int
    size: int
    metadata: Mapping[str, MetadataValue]
    tensors: tuple[TensorInfo, ...]


def read_header(path: Path, file: BinaryIO, size: int, part: int = 0) -> Header:
    """Parse the header of an open file of `size` bytes.

    The caller has seen the magic. Raises UnsupportedFormat for a big-endian GGUF or one of another version,
    InvalidGguf for a broken one.
    """
    cursor = Cursor(path, file, size)
    cursor.take(len(GGUF_MAGIC), "the magic")
    version = _read_version(path, cursor)
    tensor_count = cursor.length("the tensor count")
    entry_count = cursor.length("the metadata count")
    _check_count(cursor, entry_count, _SMALLEST_ENTRY, MAX_ENTRIES, "metadata entries")
    metadata = _read_metadata(cursor, entry_count)
    _check_count(cursor, tensor_count, _SMALLEST_TENSOR, MAX_TENSORS, "tensors")
    alignment = _alignment(path, metadata)
    tensors = [_read_tensor(cursor, part) for _ in range(tensor_count)]
    start = -(-cursor.offset // alignment) * alignment
    placed = tuple(_place(path, tensor, start, alignment, size) for tensor in tensors)
    _check_apart(path, placed)
    return Header(version, alignment, size, metadata, placed)


def _check_count(cursor: Cursor, count: int, smallest: int, most: int, what: str) -> None:
    """Refuse more things than the file has room for, or than any model has: each costs much memory."""
    cursor.check_count(count, smallest, what)
    if count > most:
        raise cursor.error(f"{what}: {count}, at most {most} are allowed")


def _read_version(path: Path, cursor: Cursor) -> int:
    version = cursor.number("the version")
    if version in VERSIONS:
        return version
    if version and version & 0xFFFF == 0:
        raise UnsupportedFormat(path, "a big-endian GGUF")
    raise UnsupportedFormat(path, f"GGUF version {version}")


def _read_metadata(cursor: Cursor, count: int) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    for index in range(count):
        key = cursor.name(MAX_KEY, f"the key of metadata entry {index}")
        if key in metadata:
            raise cursor.error(f"metadata {key!r}: the key occurs twice")
        metadata[key] = _read_value(cursor, f"metadata {key!r}")
    return metadata


def _read_value(cursor: Cursor, what: str) -> MetadataValue:
    kind = _value_type(cursor, cursor.number(f"the type of {what}"), what)
    if kind is ValueType.STRING:
        return cursor.string(what)
    if kind is ValueType.ARRAY:
        return _read_array(cursor, what)
    value: int | float | bool = _read_numbers(cursor, kind, 1, what)[0].item()
    return value


def _read_array(cursor: Cursor, what: str) -> MetadataValue:
    kind = _value_type(cursor, cursor.number(f"the element type of {what}"), what)
    count = cursor.length(f"the length of {what}")
    if kind is ValueType.ARRAY:
        raise cursor.error(f"{what}: arrays of arrays are not supported")
    if kind is ValueType.STRING:
        return tuple(cursor.strings(count, what))
    return _read_numbers(cursor, kind, count, what)


def _value_type(cursor: Cursor, number: int, what: str) -> ValueType:
    try:
        return ValueType(number)
    except ValueError:
        raise cursor.error(f"{what}: unknown value type {number}") from None


def _read_numbers(cursor: Cursor, kind: ValueType, count: int, what: str) -> NumberArray:
    dtype = np.dtype(_NUMBERS[kind])
    cursor.check_count(count, dtype.itemsize, what)
    values = np.frombuffer(cursor.take(count * dtype.itemsize, what), dtype)
    if kind is not ValueType.BOOL:
        return values
    if values.size and values.max() > 1:
        raise cursor.error(f"{what}: a bool is {values.max()}, expected 0 or 1")
    return values.view(np.bool_)


def _alignment(path: Path, metadata: Mapping[str, MetadataValue]) -> int:
    value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if isinstance(value, int) and 8 <= value <= 1 << 20 and value & (value - 1) == 0:
        return value
    found = describe_value(value)
    raise InvalidGguf(path, f"metadata 'general.alignment': expected a power of two from 8, found {found}")


def _read_tensor(cursor: Cursor, part: int) -> TensorInfo:
    """Read one entry of the table; its offset is still relative to the tensors' bytes."""
    name = cursor.name(MAX_TENSOR_NAME, "a tensor's name")
    dimensions = cursor.number(f"the dimensions of tensor {name!r}")
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise cursor.error(f"tensor {name!r}: {dimensions} dimensions, expected 1 to {MAX_DIMENSIONS}")
    sizes = [cursor.length(f"the shape of tensor {name!r}") for _ in range(dimensions)]
    number = cursor.number(f"the type of tensor {name!r}")
    try:
        kind = GgmlType(number)
    except ValueError:
        raise cursor.error(f"tensor {name!r}: unknown type {number}") from None
    nbytes = _tensor_bytes(cursor, name, kind, sizes)
    offset = cursor.length(f"the offset of tensor {name!r}")
    return TensorInfo(name, kind, tuple(reversed(sizes)), offset, nbytes, part)


def _tensor_bytes(cursor: Cursor, name: str, kind: GgmlType, sizes: list[int]) -> int:
    block_size, type_size = TYPE_LAYOUTS[kind]
    if 0 in sizes:
        raise cursor.error(f"tensor {name!r}: a dimension is 0")
    if sizes[0] % block_size:
        raise cursor.error(
            f"tensor {name!r}: rows of {sizes[0]} are no whole {kind.name} blocks of {block_size}"
        )
    elements = 1
    for size in sizes:
        elements *= size
    return elements // block_size * type_size


def _place(path: Path, tensor: TensorInfo, start: int, alignment: int, size: int) -> TensorInfo:
    """Make the offset absolute, after checking that the tensor lies within the file."""
    if tensor.offset % alignment:
        raise InvalidGguf(
            path, f"tensor {tensor.name!r}: offset {tensor.offset} is no multiple of {alignment}"
        )
    offset = start + tensor.offset
    if offset + tensor.nbytes > size:
        what = f"tensor {tensor.name!r} of {tensor.nbytes} bytes ends after the file's {size} bytes"
        raise InvalidGguf(path, what, offset=offset)
    return TensorInfo(tensor.name, tensor.type, tensor.shape, offset, tensor.nbytes, tensor.part)


def _check_apart(path: Path, tensors: tuple[TensorInfo, ...]) -> None:
    names: set[str] = set()
    last: TensorInfo | None = None
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if tensor.name in names:
            raise InvalidGguf(path, f"tensor {tensor.name!r} occurs twice", offset=tensor.offset)
        if last is not None and last.offset + last.nbytes > tensor.offset:
            raise InvalidGguf(
                path, f"tensors {last.name!r} and {tensor.name!r} overlap", offset=tensor.offset
            )
        names.add(tensor.name)
        last = tensor
