"""Q6_K: 256 columns in 16 sub-blocks, each with an int8 scale."""

from collections.abc import Iterator

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import Value
from rase_models.backends.cpu.formats.packed_format import PackedFormat, RowBlock, Span
from rase_models.gguf.types import GgmlType


class Q6_K(PackedFormat):  # noqa: N801
    """3392 bytes, 6.625 bits a weight (6.5625 in the file).

    d [16] float16, 32 bytes unused, scales [16][16] int8, then 8 chunks of 32 columns. For each 16 columns
    there are 3 vectors whose low 6 bits are columns 0..3, 4..7 and 8..11, and whose top 2 bits are, high
    bits first, those of columns 12..15.
    """

    name = "q6_k"
    type = GgmlType.Q6_K
    columns = 256
    header_nbytes = 320
    chunks = 8
    chunk_nbytes = 384

    def pack(self, block: RowBlock) -> None:
        """Move scales, and fold the fourth word of every 16 columns into the other three."""
        block.copy(208, 0, 2)
        for index in range(4):
            block.write_bytes(64 + 64 * index, block.read(192 + 4 * index, 4))
        code = block.code
        for index in range(16):
            words = [_file_word(block, 16 * index + 4 * part) for part in range(4)]
            for part in range(3):
                top = code.field(words[3], 4 - 2 * part, 6, 2)
                block.write(320 + 192 * index + 64 * part, code.builder.or_(words[part], top))

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load d."""
        return (code.load_half(block),)

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Take 4 vectors out of each 3."""
        address = code.at(code.at(block, code.times(index, 32)), 64)
        small = [code.load_bytes(code.at(address, 16 * half), signed=True) for half in range(2)]
        weights = [words for half in range(2) for words in _four_of_three(code, code.at(chunk, 192 * half))]
        yield Span(weights, 6, 32, [code.builder.fmul(scale, header[0]) for scale in small])


def _file_word(block: RowBlock, column: int) -> Value:
    """Join 4 low and 2 high bits of 4 columns; the file has them in halves of 128 and quarters of 32."""
    half, quarter, rest = column // 128, column % 128 // 32, column % 32
    low = block.read(64 * half + 32 * (quarter % 2) + rest, 4)
    high = block.read(128 + 32 * half + rest, 4)
    code = block.code
    return code.builder.or_(
        code.field(low, 4 * (quarter // 2), 0, 4),
        code.field(high, 2 * quarter, 4, 2),
    )


def _four_of_three(code: Code, address: Value) -> list[Value]:
    b = code.builder
    raw = [code.load_words(code.at(address, 64 * part)) for part in range(3)]
    fourth = [code.field(words, 6, 4 - 2 * part, 2) for part, words in enumerate(raw)]
    return [code.keep_bits(words, 63) for words in raw] + [b.or_(b.or_(fourth[0], fourth[1]), fourth[2])]
