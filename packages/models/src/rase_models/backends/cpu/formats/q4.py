"""Q4_0 and Q4_1: 32 columns of 4 bits with one float16 scale, and a minimum in Q4_1."""

from collections.abc import Iterator

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32, LANES, Value, constant, vector
from rase_models.backends.cpu.formats.packed_format import PackedFormat, RowBlock, Span
from rase_models.backends.cpu.formats.scaled_format import ScaledFormat
from rase_models.backends.cpu.instruction_set import Weights
from rase_models.gguf.types import GgmlType


def nibble_vectors(code: Code, address: Value, position: int) -> list[Value]:
    """Take apart 4 vectors of the file's bytes: low nibbles are columns 0..15, high ones 16..31.

    The values come out shifted left by `position`.
    """
    raw = [code.load_words(code.at(address, 64 * index)) for index in range(4)]
    low = [code.field(words, 0, position, 4) for words in raw]
    return low + [code.field(words, 4, position, 4) for words in raw]


def scaled(code: Code, values: Value, factor: float) -> Value:
    """Multiply a float32 vector by a constant."""
    if factor == 1.0:
        return values
    return code.builder.fmul(values, constant(vector(F32, LANES), factor))


class Q4_0(ScaledFormat):  # noqa: N801
    """Scales [sub-blocks][16] float16, then per sub-block 4 vectors of the file's bytes.

    Two sub-blocks make whole cache lines: 64 + 512 bytes, 4.5 bits a weight.
    """

    type = GgmlType.Q4_0
    stem = "q4_0"

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Use 16 times the values where a dot product takes them, so that their offset is 128."""
        position = 4 if code.instruction_set.weights is Weights.ANY_UNSIGNED else 0
        for part, scale in enumerate(header):
            weights = nibble_vectors(code, code.at(chunk, 256 * part), position)
            yield Span(weights, 4 + position, 8 << position, [scaled(code, scale, 0.5**position)])


class Q4_1(PackedFormat):  # noqa: N801
    """Scale [16] float16, minimum [16] float16, 4 vectors of the file's bytes: 320 bytes, 5 bits a weight."""

    name = "q4_1"
    type = GgmlType.Q4_1
    columns = 32
    header_nbytes = 64
    chunks = 1
    chunk_nbytes = 256

    def pack(self, block: RowBlock) -> None:
        """Move scale, minimum and bytes."""
        block.copy(0, 0, 2)
        block.copy(2, 32, 2)
        block.copy_words(4, 64, 4)

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load scale and minimum."""
        return code.load_half(block), code.load_half(code.at(block, 32))

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Take the nibbles as they are."""
        yield Span(nibble_vectors(code, chunk, 0), 4, 0, header[:1], header[1:])
