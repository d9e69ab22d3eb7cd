"""A packed weight type: the layout of its blocks, how a file's block gets there, and how it comes apart.

A packed matrix is a sequence of groups of 16 rows, a group a sequence of blocks over the columns, a block a
header and chunks of columns. In a block the 16 rows are interleaved: a lane of a vector is a row. Missing
rows of the last group are zeros.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I8, I16, I32, Value, constant
from rase_models.gguf.types import TYPE_LAYOUTS, GgmlType

GROUP_ROWS = 16


@dataclass(frozen=True, slots=True)
class Span:
    """32 columns of a block, taken apart: weight = scale * (byte - offset) + minimum.

    Attributes:
        weights: 8 vectors of 16 int32; byte i of a lane of vector j belongs to column 4j + i.
        bits: how many low bits of the bytes may be set.
        offset: what is subtracted from the bytes; 32 or 64 with two scales, at most 128.
        scales: one float32 vector for the 32 columns, or two for columns 0..15 and 16..31.
        minimums: float32 vectors to add, none or as many as scales.
    """

    weights: Sequence[Value]
    bits: int
    offset: int
    scales: Sequence[Value]
    minimums: Sequence[Value] = ()


@dataclass(frozen=True, slots=True)
class RowBlock:
    """A file's block of one row on its way into a packed block.

    Attributes:
        source: address of the row's bytes that make the block.
        target: address of the packed block.
        lane: int64, the row within the group.
        present: int1, whether the matrix has this row; otherwise zeros are read.
    """

    code: Code
    source: Value
    target: Value
    lane: Value
    present: Value

    def read(self, offset: int, nbytes: int) -> Value:
        """Read an integer of 1, 2 or 4 bytes."""
        type_ = {1: I8, 2: I16, 4: I32}[nbytes]
        value = self.code.load(self.code.at(self.source, offset), type_)
        return self.code.builder.select(self.present, value, constant(type_, 0))

    def write(self, offset: int, value: Value) -> None:
        """Write an integer to this row's place in the vector of 16 such integers at `offset`."""
        nbytes = value.type.width // 8
        lane = self.code.times(self.lane, nbytes)
        self.code.store(self.code.at(self.code.at(self.target, lane), offset), value, nbytes)

    def copy(self, source_offset: int, target_offset: int, nbytes: int) -> None:
        """Move an integer of 1, 2 or 4 bytes."""
        self.write(target_offset, self.read(source_offset, nbytes))

    def copy_words(self, source_offset: int, target_offset: int, count: int) -> None:
        """Move `count` words of 4 bytes into consecutive vectors of 64 bytes."""
        for index in range(count):
            self.copy(source_offset + 4 * index, target_offset + 64 * index, 4)

    def write_bytes(self, offset: int, word: Value) -> None:
        """Write the 4 bytes of a word into consecutive vectors of 16 bytes."""
        b = self.code.builder
        for index in range(4):
            byte = b.trunc(b.lshr(word, constant(I32, 8 * index)), I8)
            self.write(offset + GROUP_ROWS * index, byte)

    def copy_negated_half(self, source_offset: int, target_offset: int) -> None:
        """Move a float16 with its sign flipped."""
        value = self.read(source_offset, 2)
        self.write(target_offset, self.code.builder.xor(value, constant(I16, -0x8000)))


class PackedFormat(ABC):
    """The packed form of a weight type that is multiplied with int8 activations.

    Attributes:
        name: a short name, unique among all formats.
        type: the type in the file.
        columns: columns of a block.
        header_nbytes: bytes of a block before its chunks.
        chunks: chunks of a block, each with the same number of spans.
        chunk_nbytes: bytes of a chunk.
    """

    name: str
    type: GgmlType
    columns: int
    header_nbytes: int
    chunks: int
    chunk_nbytes: int

    @property
    def is_quantised(self) -> bool:
        """Whether activations are int8 records; otherwise they are float32 rows."""
        return True

    @property
    def nbytes(self) -> int:
        """Bytes of a block of 16 rows."""
        return self.header_nbytes + self.chunks * self.chunk_nbytes

    @property
    def file_nbytes(self) -> int:
        """Bytes in the file, or restated, of as many columns of one row."""
        block_columns, block_nbytes = TYPE_LAYOUTS[self.type]
        return self.columns // block_columns * block_nbytes

    def blocks(self, columns: int) -> int:
        """Return the number of blocks in a row of so many columns."""
        return columns // self.columns

    def packed_nbytes(self, rows: int, columns: int) -> int:
        """Return the size of a packed matrix."""
        groups = -(-rows // GROUP_ROWS)
        return groups * self.blocks(columns) * self.nbytes

    @abstractmethod
    def pack(self, block: RowBlock) -> None:
        """Emit the move of one row's block into the packed block."""

    @abstractmethod
    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Emit the loads of what all chunks of the block at an address need."""

    @abstractmethod
    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Emit one chunk, 32 columns after 32 columns.

        Each span is emitted when it is asked for. `block` and `chunk` are addresses, `index` is the chunk's
        number.
        """
