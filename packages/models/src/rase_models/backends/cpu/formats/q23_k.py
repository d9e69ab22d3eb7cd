"""Q2_K and Q3_K: 256 columns in 16 sub-blocks of 16, with 2 and 3 bits a weight."""

from collections.abc import Iterator

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32, I32, LANES, Value, constant, every_byte, vector
from rase_models.backends.cpu.formats.packed_format import PackedFormat, RowBlock, Span
from rase_models.backends.cpu.formats.q4 import scaled
from rase_models.backends.cpu.instruction_set import Weights
from rase_models.gguf.types import GgmlType

_SCALES, _AFTER_SCALES = 64, 320


class Q2_K(PackedFormat):  # noqa: N801
    """1344 bytes, 2.625 bits a weight.

    d [16] float16, -dmin [16] float16, scale and minimum nibbles [16][16], then 2 chunks of 128 columns: 8
    vectors of the file's bytes, whose bits 2f and 2f + 1 are columns 32f to 32f + 31.
    """

    name = "q2_k"
    type = GgmlType.Q2_K
    columns = 256
    header_nbytes = _AFTER_SCALES
    chunks = 2
    chunk_nbytes = 512

    def pack(self, block: RowBlock) -> None:
        """Move everything."""
        block.copy(80, 0, 2)
        block.copy_negated_half(82, 32)
        for index in range(4):
            block.write_bytes(_SCALES + 64 * index, block.read(4 * index, 4))
        block.copy_words(16, self.header_nbytes, 16)

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load d and -dmin."""
        return code.load_half(block), code.load_half(code.at(block, 32))

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Leave the bits in place, where a dot product takes them, and divide the scale."""
        in_place = code.instruction_set.weights is Weights.ANY_UNSIGNED
        for field in range(4):
            position = 2 * field if in_place else 0
            address = code.at(code.at(block, code.times(index, 128)), _SCALES + 32 * field)
            pairs = [self._scale_and_minimum(code, header, code.at(address, 16 * half)) for half in range(2)]
            raw = [code.load_words(code.at(chunk, 64 * part)) for part in range(8)]
            weights = [code.field(words, 2 * field, position, 2) for words in raw]
            scales = [scaled(code, scale, 0.5**position) for scale, _ in pairs]
            yield Span(weights, 2 + position, 0, scales, [minimum for _, minimum in pairs])

    def _scale_and_minimum(
        self, code: Code, header: tuple[Value, ...], address: Value
    ) -> tuple[Value, Value]:
        b = code.builder
        ints, floats = vector(I32, LANES), vector(F32, LANES)
        byte = code.load_bytes_as_int(address)
        scale = b.sitofp(b.and_(byte, constant(ints, 15)), floats)
        minimum = b.sitofp(b.lshr(byte, constant(ints, 4)), floats)
        return b.fmul(scale, header[0]), b.fmul(minimum, header[1])


class Q3_K(PackedFormat):  # noqa: N801
    """1856 bytes, 3.625 bits a weight (3.4375 in the file).

    d [16] float16, 32 bytes unused, scales [16][16] int8, 8 vectors of the file's third bits (bit 4c + f
    belongs to field f of chunk c), then the chunks of Q2_K.
    """

    name = "q3_k"
    type = GgmlType.Q3_K
    columns = 256
    header_nbytes = _AFTER_SCALES + 512
    chunks = 2
    chunk_nbytes = 512

    def pack(self, block: RowBlock) -> None:
        """Move the bits; join 4 low and 2 high bits of each scale and subtract 32."""
        block.copy(108, 0, 2)
        block.copy_words(0, _AFTER_SCALES, 8)
        block.copy_words(32, self.header_nbytes, 16)
        code = block.code
        low = [block.read(96, 4), block.read(100, 4)]
        high = block.read(104, 4)
        for part in range(4):
            nibbles = code.field(low[part % 2], 4 * (part // 2), 0, 4)
            scale = code.builder.or_(nibbles, code.field(high, 2 * part, 4, 2))
            block.write_bytes(_SCALES + 64 * part, _minus_32(code, scale))

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load d."""
        return (code.load_half(block),)

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Use 8 times the values, so that their offset is 32, and divide the scale by 8."""
        b = code.builder
        shift = code.splat(b.trunc(code.times(index, 4), I32))
        for field in range(4):
            address = code.at(code.at(block, code.times(index, 128)), _SCALES + 32 * field)
            small = [code.load_bytes(code.at(address, 16 * half), signed=True) for half in range(2)]
            scales = [b.fmul(scale, scaled(code, header[0], 1 / 8)) for scale in small]
            weights = []
            for part in range(8):
                low = code.field(code.load_words(code.at(chunk, 64 * part)), 2 * field, 3, 2)
                third = b.lshr(code.load_words(code.at(block, _AFTER_SCALES + 64 * part)), shift)
                weights.append(b.or_(low, code.field(third, field, 5, 1)))
            yield Span(weights, 6, 32, scales)


def _minus_32(code: Code, word: Value) -> Value:
    """Subtract 32 from 4 bytes of 0..63: with the top bits set no byte borrows from the next."""
    b = code.builder
    top = every_byte(I32, 128)
    return b.xor(b.sub(b.or_(word, top), every_byte(I32, 32)), top)
