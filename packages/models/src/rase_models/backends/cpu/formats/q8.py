"""Q8_0: 32 columns with one float16 scale."""

from collections.abc import Iterator

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I32, Value, every_byte
from rase_models.backends.cpu.formats.packed_format import RowBlock, Span
from rase_models.backends.cpu.formats.scaled_format import ScaledFormat
from rase_models.gguf.types import GgmlType


class Q8_0(ScaledFormat):  # noqa: N801
    """Scales [sub-blocks][16] float16, per sub-block 8 vectors of 4 columns, stored as the value plus 128.

    Two sub-blocks make whole cache lines: 64 + 1024 bytes, 8.5 bits a weight.
    """

    type = GgmlType.Q8_0
    stem = "q8_0"
    values_nbytes = 512

    def pack_values(self, block: RowBlock, source: int, target: int) -> None:
        """Add 128 to each value by flipping its top bit."""
        for index in range(8):
            word = block.read(source + 4 * index, 4)
            block.write(target + 64 * index, block.code.builder.xor(word, every_byte(I32, 128)))

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Take the bytes as they are."""
        for part, scale in enumerate(header):
            weights = [code.load_words(code.at(chunk, 512 * part + 64 * vector)) for vector in range(8)]
            yield Span(weights, 8, 128, [scale])
