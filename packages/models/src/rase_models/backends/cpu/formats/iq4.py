"""IQ4_NL and IQ4_XS: 4-bit indices into a table of 16 values that are denser around zero."""

from collections.abc import Iterator

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.lookup import lookup
from rase_models.backends.cpu.emission.types import I8, I32, Value, constant
from rase_models.backends.cpu.formats.packed_format import PackedFormat, RowBlock, Span
from rase_models.backends.cpu.formats.q4 import nibble_vectors
from rase_models.backends.cpu.formats.scaled_format import ScaledFormat
from rase_models.gguf.types import GgmlType

TABLE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""GGML's `kvalues_iq4nl`."""
_BYTES = tuple(value + 128 for value in TABLE)


def table_vectors(code: Code, address: Value) -> list[Value]:
    """Look up 4 vectors of the file's bytes; the values come out plus 128."""
    return [lookup(code, words, _BYTES) for words in nibble_vectors(code, address, 0)]


class IQ4_NL(ScaledFormat):  # noqa: N801
    """Scales [sub-blocks][16] float16, per sub-block 4 vectors of the file's bytes: 4.5 bits a weight."""

    type = GgmlType.IQ4_NL
    stem = "iq4_nl"

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Look the values up."""
        for part, scale in enumerate(header):
            yield Span(table_vectors(code, code.at(chunk, 256 * part)), 8, 128, [scale])


class IQ4_XS(PackedFormat):  # noqa: N801
    """256 columns in 2240 bytes, 4.375 bits a weight (4.25 in the file).

    Scale [16] float16, 32 bytes unused, scales [8][16] int8, then 8 chunks of 4 vectors of the file's bytes.
    """

    name = "iq4_xs"
    type = GgmlType.IQ4_XS
    columns = 256
    header_nbytes = 192
    chunks = 8
    chunk_nbytes = 256

    def pack(self, block: RowBlock) -> None:
        """Move the bytes; join 4 low and 2 high bits of each scale and subtract 32."""
        block.copy(0, 0, 2)
        b = block.code.builder
        low, high = block.read(4, 4), b.zext(block.read(2, 2), I32)
        for part in range(8):
            bits = b.and_(b.lshr(low, constant(I32, 4 * part)), constant(I32, 15))
            top = b.and_(b.lshr(high, constant(I32, 2 * part)), constant(I32, 3))
            scale = b.sub(b.or_(bits, b.shl(top, constant(I32, 4))), constant(I32, 32))
            block.write(64 + 16 * part, b.trunc(scale, I8))
            block.copy_words(8 + 16 * part, self.header_nbytes + 256 * part, 4)

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load the scale of scales."""
        return (code.load_half(block),)

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Look the values up."""
        small = code.load_bytes(code.at(code.at(block, code.times(index, 16)), 64), signed=True)
        yield Span(table_vectors(code, chunk), 8, 128, [code.builder.fmul(small, header[0])])
