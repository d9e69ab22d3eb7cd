"""What the types have in common whose sub-blocks of 32 columns have one scale each."""

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import Value
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS, PackedFormat, RowBlock


class ScaledFormat(PackedFormat):
    """Scales [sub-blocks][16], then the values of each sub-block. Several of these make whole cache lines.

    Attributes:
        stem: the name, without the number of sub-blocks.
        scale_nbytes: bytes of a scale, with which the file's sub-block begins.
        values_nbytes: bytes of a sub-block's values, of 16 rows.
    """

    chunks = 1
    stem: str
    scale_nbytes = 2
    values_nbytes = 256

    def __init__(self, sub_blocks: int) -> None:
        self.name = f"{self.stem}x{sub_blocks}"
        self.sub_blocks = sub_blocks
        self.columns = 32 * sub_blocks
        self.header_nbytes = self.scale_nbytes * GROUP_ROWS * sub_blocks
        self.chunk_nbytes = self.values_nbytes * sub_blocks

    def pack(self, block: RowBlock) -> None:
        """Move scales and values."""
        source_nbytes = self.file_nbytes // self.sub_blocks
        for part in range(self.sub_blocks):
            source, target = source_nbytes * part, self.values_nbytes * part
            block.copy(source, self.scale_nbytes * GROUP_ROWS * part, self.scale_nbytes)
            self.pack_values(block, source + self.scale_nbytes, self.header_nbytes + target)

    def pack_values(self, block: RowBlock, source: int, target: int) -> None:
        """Emit the move of a sub-block's values, from and to these offsets: words, as the file has them."""
        block.copy_words(source, target, self.values_nbytes // 64)

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load the scales."""
        size = self.scale_nbytes * GROUP_ROWS
        return tuple(self.scale(code, code.at(block, size * part)) for part in range(self.sub_blocks))

    def scale(self, code: Code, address: Value) -> Value:
        """Load a vector of float32 scales: from float16, unless a type says otherwise."""
        return code.load_half(address)
