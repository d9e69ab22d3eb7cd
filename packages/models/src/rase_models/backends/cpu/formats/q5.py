"""Q5_0 and Q5_1: 32 columns of 4 + 1 bits with one float16 scale, and a minimum in Q5_1."""

from collections.abc import Iterator

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I32, Value, constant
from rase_models.backends.cpu.formats.packed_format import PackedFormat, RowBlock, Span
from rase_models.backends.cpu.formats.q4 import nibble_vectors, scaled
from rase_models.backends.cpu.formats.scaled_format import ScaledFormat
from rase_models.backends.cpu.instruction_set import Weights
from rase_models.gguf.types import GgmlType


def transpose_bits(code: Code, word: Value) -> Value:
    """Move bit 4j + k of an int32 to bit j of byte k."""
    b = code.builder

    def keep(value: Value, mask: int) -> Value:
        return b.and_(value, constant(I32, mask))

    result = constant(I32, 0)
    for byte in range(4):
        bits = keep(b.lshr(word, constant(I32, byte)), 0x11111111)
        for step, mask in ((3, 0x03030303), (6, 0x000F000F), (12, 0x000000FF)):
            bits = keep(b.or_(bits, b.lshr(bits, constant(I32, step))), mask)
        result = b.or_(result, b.shl(bits, constant(I32, 8 * byte)))
    return result


def five_bit_vectors(code: Code, nibbles: Value, fifth_bits: Value, position: int) -> list[Value]:
    """Take apart 4 vectors of nibbles and one whose bit j is the fifth bit of vector j."""
    low = nibble_vectors(code, nibbles, position)
    bits = code.load_words(fifth_bits)
    return [
        code.builder.or_(words, code.field(bits, index, position + 4, 1)) for index, words in enumerate(low)
    ]


class Q5_0(ScaledFormat):  # noqa: N801
    """Scales [sub-blocks][16] float16, then per sub-block 4 vectors of nibbles and one of fifth bits.

    Two sub-blocks make whole cache lines: 64 + 640 bytes, 5.5 bits a weight.
    """

    type = GgmlType.Q5_0
    stem = "q5_0"
    values_nbytes = 320

    def pack_values(self, block: RowBlock, source: int, target: int) -> None:
        """Move nibbles, and transpose the fifth bits."""
        block.copy_words(source + 4, target, 4)
        block.write(target + 256, transpose_bits(block.code, block.read(source, 4)))

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Use 8 times the values where a dot product takes them, so that their offset is 128."""
        position = 3 if code.instruction_set.weights is Weights.ANY_UNSIGNED else 0
        for part, scale in enumerate(header):
            nibbles = code.at(chunk, 320 * part)
            weights = five_bit_vectors(code, nibbles, code.at(nibbles, 256), position)
            yield Span(weights, 5 + position, 16 << position, [scaled(code, scale, 0.5**position)])


class Q5_1(PackedFormat):  # noqa: N801
    """Scale, minimum [16] float16, 4 vectors of nibbles, one of fifth bits: 384 bytes, 6 bits a weight."""

    name = "q5_1"
    type = GgmlType.Q5_1
    columns = 32
    header_nbytes = 64
    chunks = 1
    chunk_nbytes = 320

    def pack(self, block: RowBlock) -> None:
        """Move scale, minimum and nibbles, and transpose the fifth bits."""
        block.copy(0, 0, 2)
        block.copy(2, 32, 2)
        block.copy_words(8, 64, 4)
        block.write(320, transpose_bits(block.code, block.read(4, 4)))

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load scale and minimum."""
        return code.load_half(block), code.load_half(code.at(block, 32))

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Take the values as they are."""
        yield Span(five_bit_vectors(code, chunk, code.at(chunk, 256), 0), 5, 0, header[:1], header[1:])
