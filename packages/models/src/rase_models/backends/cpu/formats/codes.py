"""IQ1, IQ2 and IQ3: codes of 3 or 4 bits that mean small integers, as `restating` leaves them."""

from collections.abc import Iterator

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.lookup import lookup
from rase_models.backends.cpu.emission.types import I32, Value
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS, PackedFormat, RowBlock, Span
from rase_models.backends.cpu.formats.q4 import nibble_vectors, scaled
from rase_models.backends.cpu.restating import NIBBLES_DTYPE, planes_dtype
from rase_models.gguf.codebooks import CODEBOOKS, Codebook
from rase_models.gguf.types import GgmlType

_SCALES, _OFFSET, _BITS = 64, 64, 7


class _CodedFormat(PackedFormat):
    """256 columns: d [16] float16, 32 bytes unused, scales [8 or 16][16] int8, then codes."""

    columns = 256

    def __init__(self, type_: GgmlType) -> None:
        self.name = type_.name.lower()
        self.type = type_
        self.book: Codebook = CODEBOOKS[type_]
        values = self.book.values
        self.bytes = [value + _OFFSET for value in values * (16 // len(values))]
        self.after_scales = _SCALES + GROUP_ROWS * self.book.scales

    def header(self, code: Code, block: Value) -> tuple[Value, ...]:
        """Load d times the codebook's factor."""
        return (scaled(code, code.load_half(block), self.book.factor),)

    def scale(self, code: Code, header: tuple[Value, ...], block: Value, number: Value) -> Value:
        """Load the scale of that number."""
        address = code.at(code.at(block, code.times(number, GROUP_ROWS)), _SCALES)
        return code.builder.fmul(code.load_bytes(address, signed=True), header[0])


class Planes(_CodedFormat):
    """3 bits a code: 8 vectors of third bits (bit 4c + f belongs to field f of chunk c), then Q2_K's chunks.

    3.5 or 3.625 bits a weight; 1.56 to 2.56 in the file.
    """

    chunks = 2
    chunk_nbytes = 512

    def __init__(self, type_: GgmlType) -> None:
        super().__init__(type_)
        self.header_nbytes = self.after_scales + 512

    @property
    def file_nbytes(self) -> int:
        """Bytes of a restated block."""
        return planes_dtype(self.book.scales).itemsize

    def pack(self, block: RowBlock) -> None:
        """Move everything."""
        block.copy(96 + self.book.scales, 0, 2)
        for part in range(self.book.scales // 4):
            block.write_bytes(_SCALES + 64 * part, block.read(96 + 4 * part, 4))
        block.copy_words(0, self.after_scales, 8)
        block.copy_words(32, self.header_nbytes, 16)

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Join the planes and look the values up."""
        b = code.builder
        scales = self.book.scales // 8
        shift = code.splat(b.trunc(code.times(index, 4), I32))
        for field in range(4):
            number = code.at(code.times(index, 4 * scales), field * scales)
            weights = []
            for part in range(8):
                low = code.field(code.load_words(code.at(chunk, 64 * part)), 2 * field, 0, 2)
                third = b.lshr(code.load_words(code.at(block, self.after_scales + 64 * part)), shift)
                weights.append(lookup(code, b.or_(low, code.field(third, field, 2, 1)), self.bytes))
            factors = [self.scale(code, header, block, code.at(number, half)) for half in range(scales)]
            yield Span(weights, _BITS, _OFFSET, factors)


class Nibbles(_CodedFormat):
    """4 bits a code in 8 chunks of 4 vectors: 4.375 bits a weight; 3.06 and 3.44 in the file."""

    chunks = 8
    chunk_nbytes = 256

    def __init__(self, type_: GgmlType) -> None:
        super().__init__(type_)
        self.header_nbytes = self.after_scales

    @property
    def file_nbytes(self) -> int:
        """Bytes of a restated block."""
        return NIBBLES_DTYPE.itemsize

    def pack(self, block: RowBlock) -> None:
        """Move everything."""
        block.copy(0, 0, 2)
        for part in range(2):
            block.write_bytes(_SCALES + 64 * part, block.read(2 + 4 * part, 4))
        for part in range(8):
            block.copy_words(10 + 16 * part, self.header_nbytes + 256 * part, 4)

    def spans(
        self, code: Code, header: tuple[Value, ...], block: Value, chunk: Value, index: Value
    ) -> Iterator[Span]:
        """Look the values up."""
        weights = [lookup(code, words, self.bytes) for words in nibble_vectors(code, chunk, 0)]
        yield Span(weights, _BITS, _OFFSET, [self.scale(code, header, block, index)])
