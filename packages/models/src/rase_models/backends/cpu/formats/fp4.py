"""MXFP4 and NVFP4: floats of 4 bits (E2M1), with a scale of 32 or 16 columns.

Twice their values are small integers, which are looked up; the scales are halved.
"""

from collections.abc import Iterator

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.lookup import lookup
from rase_models.backends.cpu.emission.types import F32X16, I32X16, Value, constant
from rase_models.backends.cpu.formats.packed_format import PackedFormat, RowBlock, Span
from rase_models.backends.cpu.formats.q4 import nibble_vectors
from rase_models.backends.cpu.formats.scaled_format import ScaledFormat
from rase_models.backends.cpu.restating import NVFP4_DTYPE
from rase_models.gguf.quants import FP4_VALUES
from rase_models.gguf.types import GgmlType

_OFFSET, _BITS = 32, 6
_BYTES = [int(value) + _OFFSET for value in FP4_VALUES]


def _values(code: Code, address: Value) -> list[Value]:
    return [lookup(code, words, _BYTES) for words in nibble_vectors(code, address, 0)]


class MXFP4(ScaledFormat):
    """Exponents [sub-blocks][16] uint8, per sub-block 4 vectors of the file's bytes: 4.25 bits a weight."""

    type = GgmlType.MXFP4
    stem = "mxfp4"
    scale_nbytes = 1

    def scale(self, code: Code, address: Value) -> Value:
        """Load 2**(e - 128) of 16 bytes e: a float32's exponent, or a denormal number for 0 and 1."""
        b = code.builder
        exponent = code.load_bytes_as_int(address)
        normal = b.shl(b.sub(exponent, constant(I32X16, 1)), constant(I32X16, 23))
        denormal = b.shl(constant(I32X16, 1 << 21), b.and_(exponent, constant(I32X16, 1)))
        is_normal = b.icmp_unsigned(">", exponent, constant(I32X16, 1))
        return b.bitcast(b.select(is_normal, normal, denormal), F32X16)

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Look the values up."""
        for part, scale in enumerate(header):
            yield Span(_values(code, code.at(chunk, 256 * part)), _BITS, _OFFSET, [scale])


class NVFP4(PackedFormat):
    """64 columns, restated: scales [4][16] float16, 2 times 4 vectors of nibbles: 5 bits a weight."""

    name = "nvfp4"
    type = GgmlType.NVFP4
    columns = 64
    header_nbytes = 128
    chunks = 1
    chunk_nbytes = 512

    @property
    def file_nbytes(self) -> int:
        """Bytes of a restated block."""
        return NVFP4_DTYPE.itemsize

    def pack(self, block: RowBlock) -> None:
        """Move scales and bytes."""
        for part in range(4):
            block.copy(2 * part, 32 * part, 2)
        for part in range(2):
            block.copy_words(8 + 16 * part, self.header_nbytes + 256 * part, 4)

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load the scales."""
        return tuple(code.load_half(code.at(block, 32 * part)) for part in range(4))

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Look the values up."""
        for part in range(2):
            scales = header[2 * part : 2 * part + 2]
            yield Span(_values(code, code.at(chunk, 256 * part)), _BITS, _OFFSET, scales)
