"""Q8_0: 32 columns with one float16 scale."""

from collections.abc import Iterator

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I32, Value, every_byte
from rase_models.backends.cpu.formats.packed_format import PackedFormat, RowBlock, Span
from rase_models.gguf.types import GgmlType


class Q8_0(PackedFormat):  # noqa: N801
    """Scales [sub-blocks][16] float16, per sub-block 8 vectors of 4 columns, stored as the value plus 128.

    Two sub-blocks make whole cache lines: 64 + 1024 bytes, 8.5 bits a weight.
    """

    type = GgmlType.Q8_0
    chunks = 1

    def __init__(self, sub_blocks: int) -> None:
        self.name = f"q8_0x{sub_blocks}"
        self.sub_blocks = sub_blocks
        self.columns = 32 * sub_blocks
        self.header_nbytes = 32 * sub_blocks
        self.chunk_nbytes = 512 * sub_blocks

    def pack(self, block: RowBlock) -> None:
        """Move scales and values; add 128 to each value by flipping its top bit."""
        for part in range(self.sub_blocks):
            block.copy(34 * part, 32 * part, 2)
            for index in range(8):
                word = block.read(34 * part + 2 + 4 * index, 4)
                flipped = block.code.builder.xor(word, every_byte(I32, 128))
                block.write(self.header_nbytes + 512 * part + 64 * index, flipped)

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load the scales."""
        return tuple(code.load_half(code.at(block, 32 * part)) for part in range(self.sub_blocks))

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Take the bytes as they are."""
        for part, scale in enumerate(header):
            weights = [code.load_words(code.at(chunk, 512 * part + 64 * vector)) for vector in range(8)]
            yield Span(weights, 8, 128, [scale])
