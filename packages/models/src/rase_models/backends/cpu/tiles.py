"""The inner loops of matrix multiplication: 16 outputs x a few rows, over all columns.

An output element has one accumulator (two for float weights: even and odd columns) that takes the columns in
order, so its bits do not depend on how many rows share the tile. Emitted as a function of int64:

    tile(weights, blocks, x, row, y, y_stride, add)

weights: address of a group's first block; blocks: how many; x: address of the panel of activation records;
row: the first row within the panel; y: address of float32 outputs, 16 a row; y_stride: bytes between rows
of y; add: add to what is there if not 0. For float weights x is the first row of float32 and `row` the
bytes between rows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir

from rase_models.backends.cpu.activations import (
    RECORD_COLUMNS,
    SCALE,
    SCALED_SUM,
    START_32_HIGH,
    START_32_LOW,
    START_128,
    record_nbytes,
)
from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.dot import dot
from rase_models.backends.cpu.emission.types import F32, F32X16, I32, I32X16, I64, Value, constant, every_byte
from rase_models.backends.cpu.formats.floats import FloatFormat
from rase_models.backends.cpu.formats.packed_format import PackedFormat, Span
from rase_models.backends.cpu.instruction_set import Weights

Tile = Callable[..., None]

_CACHE_LINE = 64
_PREFETCHES = ((16384, 2), (2048, 3))  # bytes ahead, cache level: far into the second, near into the first
_HALVES = ((0, START_32_LOW), (1, START_32_HIGH))


def quantised_tile(form: PackedFormat, rows: int, panel: int) -> Tile:
    """Return the emitter of a tile of `rows` rows out of panels of `panel` rows.

    More rows than a panel has are those of panels that follow each other, from row 0 on.
    """

    def emit(code: Code, weights: Value, blocks: Value, x: Value, row: Value, *output: Value) -> None:
        accumulators = [code.variable(constant(F32X16, 0.0)) for _ in range(rows)]
        spans_of_block = form.columns // RECORD_COLUMNS
        panel_size = code.times(blocks, spans_of_block * record_nbytes(panel))
        records = code.variable(x)
        for chunk in _chunks(code, form, weights, blocks):
            record = code.builder.load(records)
            for span in chunk:
                rows_of_span = _record_rows(code, record, row, rows, panel, panel_size)
                for slot, values in zip(accumulators, rows_of_span, strict=True):
                    code.builder.store(_multiply(code, span, values, code.builder.load(slot)), slot)
                record = code.at(record, record_nbytes(panel))
            code.builder.store(record, records)
        _store(code, accumulators, *output)

    return emit


def _chunks(code: Code, form: PackedFormat, weights: Value, blocks: Value) -> Iterator[Iterable[Span]]:
    """Emit the loops over blocks and chunks; gives the spans of a chunk, once, inside of both."""
    with code.loop(blocks) as index:
        block = code.at(weights, code.times(index, form.nbytes))
        _prefetch(code, block, form.header_nbytes)
        header = form.header(code, block)
        with code.loop(constant(I64, form.chunks)) as chunk:
            offset = code.at(code.times(chunk, form.chunk_nbytes), form.header_nbytes)
            address = code.opaque(code.at(block, offset))
            _prefetch(code, address, form.chunk_nbytes)
            yield form.spans(code, header, block, address, chunk)


def _prefetch(code: Code, address: Value, nbytes: int) -> None:
    for line in range(0, nbytes, _CACHE_LINE):
        for ahead, level in _PREFETCHES:
            code.prefetch(code.at(address, line + ahead), level)


@dataclass(frozen=True, slots=True)
class _RecordRow:
    """One row of an activation record.

    Attributes:
        values: address of the row's int8 values.
        parts: address of the row's place in the record, as if it began with 4 bytes a row.
    """

    code: Code
    values: Value
    parts: Value
    panel: int

    def word(self, index: int) -> Value:
        """Load 4 values into all lanes."""
        return self.code.load_splat(self.code.at(self.values, 4 * index), I32)

    def part(self, offset: int, type_: ir.Type) -> Value:
        """Load the part at `offset` (of a panel of one row) into all lanes."""
        return self.code.load_splat(self.code.at(self.parts, self.panel * offset), type_)


def _record_rows(
    code: Code, record: Value, row: Value, rows: int, panel: int, panel_size: Value
) -> Iterator[_RecordRow]:
    """Give the rows of a tile. Addresses are hidden from the optimiser once for each panel."""
    for first in range(0, rows, panel):
        base = (
            record
            if first == 0
            else code.at(record, code.builder.mul(panel_size, constant(I64, first // panel)))
        )
        if rows < panel:
            values, parts = (code.opaque(code.at(base, code.times(row, size))) for size in (32, 4))
        else:
            values = parts = code.opaque(base)
        for index in range(min(panel, rows - first)):
            yield _RecordRow(code, code.at(values, 32 * index), code.at(parts, 4 * index), panel)


def _multiply(code: Code, span: Span, row: _RecordRow, total: Value) -> Value:
    """Add a span's products with one row to the accumulator."""
    if len(span.scales) == 1:
        return _multiply_whole(code, span, row, total)
    return _multiply_halves(code, span, row, total)


def _multiply_whole(code: Code, span: Span, row: _RecordRow, total: Value) -> Value:
    """total + scale * d * sum(w x) + minimum * d * sum(x), for 32 columns."""
    b = code.builder
    weights, signed, start = _without_offset(code, span, row)
    for index, word in enumerate(weights):
        start = dot(code, start, word, row.word(index), signed)
    scale = b.fmul(span.scales[0], row.part(SCALE, F32))
    total = code.fma(code.to_float(start), scale, total)
    for minimum in span.minimums:
        total = code.fma(minimum, row.part(SCALED_SUM, F32), total)
    return total


def _without_offset(code: Code, span: Span, row: _RecordRow) -> tuple[Sequence[Value], bool, Value]:
    """Subtract the offset from the weights, or from the start of the dot product: weights, signed, start."""
    b = code.builder
    zero = constant(I32X16, 0)
    kind = code.instruction_set.weights
    if span.offset == 0:
        return span.weights, False, zero
    if kind is Weights.ANY_UNSIGNED or (kind is Weights.SMALL_UNSIGNED and span.offset < 128):
        start = row.part(START_128, I32)
        shift = (128 // span.offset).bit_length() - 1
        return span.weights, False, b.ashr(start, constant(I32X16, shift)) if shift else start
    return [_subtract_bytes(code, words, span.offset) for words in span.weights], True, zero


def _subtract_bytes(code: Code, words: Value, offset: int) -> Value:
    """Subtract a power of two from every byte; bytes are under twice the offset."""
    b = code.builder
    if offset == 128:
        return b.xor(words, every_byte(I32X16, 128))
    top = every_byte(I32X16, 128)
    return b.xor(b.sub(b.or_(words, top), every_byte(I32X16, offset)), top)


def _multiply_halves(code: Code, span: Span, row: _RecordRow, total: Value) -> Value:
    """total + d * (scale * sum(w x) + minimum * sum(x) of columns 0..15, and of 16..31)."""
    b = code.builder
    dots, sums = [], []
    for half, offset in _HALVES:
        sums.append(row.part(offset, I32))
        start = sums[half] if span.offset else constant(I32X16, 0)
        for index in range(4 * half, 4 * half + 4):
            start = dot(code, start, span.weights[index], row.word(index), False)
        dots.append(code.to_float(start))
    part = code.fma(dots[1], span.scales[1], b.fmul(dots[0], span.scales[0]))
    for minimum, start in zip(span.minimums, sums, strict=False):
        factor = b.fmul(minimum, constant(F32X16, -1 / 32))  # exact; the record holds -32 times the sum
        part = code.fma(code.to_float(start), factor, part)
    return code.fma(part, row.part(SCALE, F32), total)


def float_tile(form: FloatFormat, rows: int) -> Tile:
    """Return the emitter of a tile of float weights and `rows` float32 rows."""

    def emit(code: Code, weights: Value, blocks: Value, x: Value, stride: Value, *output: Value) -> None:
        b = code.builder
        x_rows = [code.at(x, code.times(stride, index)) for index in range(rows)]
        totals = [[code.variable(constant(F32X16, 0.0)) for _ in range(rows)] for _ in range(2)]

        def column(index: Value, parity: int) -> None:
            address = code.at(weights, code.times(index, form.nbytes))
            w = form.load(code, address)
            offset = code.times(index, 4)
            for slot, x_row in zip(totals[parity], x_rows, strict=True):
                b.store(code.fma(w, code.load_splat(code.at(x_row, offset), F32), b.load(slot)), slot)

        with code.loop(b.lshr(blocks, constant(I64, 1))) as pair:
            even = code.times(pair, 2)
            _prefetch(code, code.at(weights, code.times(even, form.nbytes)), 2 * form.nbytes)
            column(even, 0)
            column(code.at(even, 1), 1)
        with code.loop(b.and_(blocks, constant(I64, 1))):
            column(b.sub(blocks, constant(I64, 1)), 0)
        for even_total, odd_total in zip(*totals, strict=True):
            b.store(b.fadd(b.load(even_total), b.load(odd_total)), even_total)
        _store(code, totals[0], *output)

    return emit


def _store(code: Code, accumulators: Sequence[Value], y: Value, y_stride: Value, add: Value) -> None:
    b = code.builder
    adds = b.icmp_signed("!=", add, constant(I64, 0))
    for index, slot in enumerate(accumulators):
        address = code.at(y, code.times(y_stride, index))
        total = b.load(slot)
        code.store(address, b.select(adds, b.fadd(code.load(address, F32X16), total), total))
