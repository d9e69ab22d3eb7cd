"""Q4_K and Q5_K: 256 columns in 8 sub-blocks, each with a 6-bit scale and a 6-bit minimum."""

from collections.abc import Iterator

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I32, Value
from rase_models.backends.cpu.formats.packed_format import PackedFormat, RowBlock, Span
from rase_models.backends.cpu.formats.q4 import scaled
from rase_models.backends.cpu.instruction_set import Weights
from rase_models.gguf.types import GgmlType

_SCALES, _MINIMUMS, _AFTER_SCALES = 64, 192, 320


def pack_scales(block: RowBlock) -> None:
    """Move d and -dmin, and widen the 6-bit scales and minimums of bytes 4..15 to bytes."""
    block.copy(0, 0, 2)
    block.copy_negated_half(2, 32)
    code, b = block.code, block.code.builder
    first, second, third = (block.read(4 + 4 * index, 4) for index in range(3))
    block.write_bytes(_SCALES, code.keep_bits(first, 63))
    block.write_bytes(_SCALES + 64, b.or_(code.field(third, 0, 0, 4), code.field(first, 6, 4, 2)))
    block.write_bytes(_MINIMUMS, code.keep_bits(second, 63))
    block.write_bytes(_MINIMUMS + 64, b.or_(code.field(third, 4, 0, 4), code.field(second, 6, 4, 2)))


def load_scales(code: Code, header: tuple[Value, ...], block: Value, index: Value, half: int) -> list[Value]:
    """Load scale and minimum of sub-block 2 * index + half."""
    b = code.builder
    address = code.at(code.at(block, code.times(index, 32)), 16 * half)
    scale = code.load_bytes(code.at(address, _SCALES), signed=False)
    minimum = code.load_bytes(code.at(address, _MINIMUMS), signed=False)
    return [b.fmul(scale, header[0]), b.fmul(minimum, header[1])]


class Q4_K(PackedFormat):  # noqa: N801
    """2368 bytes, 4.625 bits a weight (4.5 in the file).

    d [16] float16, -dmin [16] float16, scales [8][16] uint8, minimums [8][16] uint8, then 4 chunks of 64
    columns: 8 vectors of the file's bytes, whose low nibbles are the first 32 columns and high nibbles the
    other 32.
    """

    name = "q4_k"
    type = GgmlType.Q4_K
    columns = 256
    header_nbytes = _AFTER_SCALES
    chunks = 4
    chunk_nbytes = 512

    def pack(self, block: RowBlock) -> None:
        """Move scales and bytes."""
        pack_scales(block)
        block.copy_words(16, self.header_nbytes, 32)

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load d and -dmin."""
        return code.load_half(block), code.load_half(code.at(block, 32))

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Leave the high nibbles in place, where a dot product takes them, and divide the scale by 16."""
        high = 4 if code.instruction_set.weights is Weights.ANY_UNSIGNED else 0
        for half, position in enumerate((0, high)):
            scale, minimum = load_scales(code, header, block, index, half)
            raw = [code.load_words(code.at(chunk, 64 * part)) for part in range(8)]
            weights = [code.field(words, 4 * half, position, 4) for words in raw]
            yield Span(weights, 4 + position, 0, [scaled(code, scale, 0.5**position)], [minimum])


class Q5_K(PackedFormat):  # noqa: N801
    """2880 bytes, 5.625 bits a weight (5.5 in the file).

    The header of Q4_K, then 8 vectors of the file's fifth bits (bit 2c + h belongs to half h of chunk c),
    then the chunks of Q4_K.
    """

    name = "q5_k"
    type = GgmlType.Q5_K
    columns = 256
    header_nbytes = _AFTER_SCALES + 512
    chunks = 4
    chunk_nbytes = 512

    def pack(self, block: RowBlock) -> None:
        """Move scales, fifth bits and nibbles."""
        pack_scales(block)
        block.copy_words(16, _AFTER_SCALES, 8)
        block.copy_words(48, self.header_nbytes, 32)

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load d and -dmin."""
        return code.load_half(block), code.load_half(code.at(block, 32))

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Shift the fifth bits of the chunk down to bits 0 and 1, and put them onto the nibbles."""
        b = code.builder
        shift = code.splat(b.trunc(code.times(index, 2), I32))
        for half in range(2):
            scale, minimum = load_scales(code, header, block, index, half)
            weights = []
            for part in range(8):
                nibbles = code.field(code.load_words(code.at(chunk, 64 * part)), 4 * half, 0, 4)
                fifth = b.lshr(code.load_words(code.at(block, _AFTER_SCALES + 64 * part)), shift)
                weights.append(b.or_(nibbles, code.field(fifth, half, 4, 1)))
            yield Span(weights, 5, 0, [scale], [minimum])
