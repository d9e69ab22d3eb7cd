"""The inner loops of matrix multiplication: 16 outputs x a few rows, over all columns.

An output element has one accumulator (two for float weights: even and odd columns) that takes the columns in
order, so its bits do not depend on how many rows share the tile. Emitted as a function of int64:

    tile(weights, blocks, x, row, y, y_stride, flags)

weights: address of a group's first block; blocks: how many; x: address of the panel of activation records;
row: the first row within the panel; y: address of float32 outputs, 16 a row; y_stride: bytes between rows
of y; flags: ADD to what is there, weights are NEAR. For float weights x is the first row of float32 and
`row` the bytes between rows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from llvmlite import ir

from rase_models.backends.cpu.activations import (
    SCALE,
    SCALED_SUM,
    START_32_HIGH,
    START_32_LOW,
    START_128,
    record_nbytes,
)
from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.dot import Columns, add_products
from rase_models.backends.cpu.emission.types import F32, F32X16, I32, I32X16, I64, Value, constant, every_byte
from rase_models.backends.cpu.formats.floats import FloatFormat
from rase_models.backends.cpu.formats.packed_format import PackedFormat, Span
from rase_models.backends.cpu.instruction_set import Weights

Tile = Callable[..., None]

ADD, NEAR = 1, 2
"""Flags: outputs are added to what is there; weights were just read, so asking for them early only costs."""

_CACHE_LINE = 64
_NARROW_ROWS, _NARROW_FLOAT_ROWS = 4, 3  # accumulators that fit where registers are few or short
_AHEAD = 4096  # bytes that weights are asked for ahead of their use


def quantised_tile(form: PackedFormat, rows: int, panel: int) -> Tile:
    """Return the emitter of a tile of `rows` rows, at most `panel`, out of a panel of so many."""

    def emit(
        code: Code,
        weights: Value,
        blocks: Value,
        x: Value,
        row: Value,
        y: Value,
        y_stride: Value,
        flags: Value,
    ) -> None:
        for first in range(0, rows, _rows_of_pass(code, rows)):
            count = min(rows - first, _rows_of_pass(code, rows))
            place = _Place(x, code.at(row, first), count, panel)
            totals = _quantised_pass(code, form, weights, blocks, place, flags)
            _store(code, totals, code.at(y, code.times(y_stride, first)), y_stride, flags)

    return emit


def _rows_of_pass(code: Code, rows: int) -> int:
    """Return how many rows share a walk over the weights without running out of registers."""
    return rows if code.instruction_set.wide_registers else min(rows, _NARROW_ROWS)


@dataclass(frozen=True, slots=True)
class _Place:
    """The rows of a pass.

    Attributes:
        x: address of the panel.
        row: the first row within the panel; not used for a whole panel.
        rows: how many rows.
        panel: rows of a panel.
    """

    x: Value
    row: Value
    rows: int
    panel: int


def _quantised_pass(
    code: Code, form: PackedFormat, weights: Value, blocks: Value, place: _Place, flags: Value
) -> list[Value]:
    """Emit one walk over the weights; returns variables that hold the outputs of each row."""
    accumulators = [code.variable(constant(F32X16, 0.0)) for _ in range(place.rows)]
    records = code.variable(place.x)
    near = _has(code, flags, NEAR) if place.rows > 1 else None
    for chunk in _chunks(code, form, weights, blocks, near):
        record = code.builder.load(records)
        for span in chunk:
            _accumulate(code, span, list(_record_rows(code, record, place)), accumulators)
            record = code.at(record, record_nbytes(place.panel))
        code.builder.store(record, records)
    return accumulators


def _chunks(
    code: Code, form: PackedFormat, weights: Value, blocks: Value, near: Value | None
) -> Iterator[Iterable[Span]]:
    """Emit the loops over blocks and chunks; gives the spans of a chunk, once, inside of both."""
    with code.loop(blocks) as index:
        block = code.at(weights, code.times(index, form.nbytes))
        _prefetch(code, block, form.header_nbytes, near)
        header = form.header(code, block)
        with code.loop(constant(I64, form.chunks)) as chunk:
            offset = code.at(code.times(chunk, form.chunk_nbytes), form.header_nbytes)
            address = code.opaque(code.at(block, offset))
            _prefetch(code, address, form.chunk_nbytes, near)
            yield form.spans(code, header, block, address, chunk)


def _prefetch(code: Code, address: Value, nbytes: int, near: Value | None) -> None:
    """Ask for the lines that will be read 4 KB later, unless they are near."""
    asks = nullcontext() if near is None else code.builder.if_then(code.builder.not_(near))
    with asks:
        _prefetch_lines(code, address, nbytes)


def _prefetch_lines(code: Code, address: Value, nbytes: int) -> None:
    for line in range(0, nbytes, _CACHE_LINE):
        code.prefetch(code.at(address, line + _AHEAD), code.instruction_set.weights_hint)


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


def _record_rows(code: Code, record: Value, place: _Place) -> Iterator[_RecordRow]:
    """Give the rows of a pass. Addresses are hidden from the optimiser."""
    if place.rows < place.panel:
        values, parts = (code.opaque(code.at(record, code.times(place.row, size))) for size in (32, 4))
    else:
        values = parts = code.opaque(record)
    for index in range(place.rows):
        yield _RecordRow(code, code.at(values, 32 * index), code.at(parts, 4 * index), place.panel)


def _accumulate(code: Code, span: Span, rows: Sequence[_RecordRow], slots: Sequence[Value]) -> None:
    totals = [code.builder.load(slot) for slot in slots]
    for slot, total in zip(slots, _multiply(code, span, rows, totals), strict=True):
        code.builder.store(total, slot)


def _multiply(code: Code, span: Span, rows: Sequence[_RecordRow], totals: Sequence[Value]) -> list[Value]:
    """Add a span's products with a few rows to their accumulators."""
    multiply = _multiply_whole if len(span.scales) == 1 else _multiply_halves
    return multiply(code, span, rows, totals)


def _multiply_whole(
    code: Code, span: Span, rows: Sequence[_RecordRow], totals: Sequence[Value]
) -> list[Value]:
    """total + scale * d * sum(w x) + minimum * d * sum(x), for 32 columns."""
    b = code.builder
    weights, signed, starts = _without_offset(code, span, rows)
    dots = add_products(code, starts, _columns(weights, rows, 0), span.bits, signed)
    results = []
    for products, row, total in zip(dots, rows, totals, strict=True):
        scale = b.fmul(span.scales[0], row.part(SCALE, F32))
        total = code.fma(code.to_float(products), scale, total)
        for minimum in span.minimums:
            total = code.fma(minimum, row.part(SCALED_SUM, F32), total)
        results.append(total)
    return results


def _columns(weights: Sequence[Value], rows: Sequence[_RecordRow], first: int) -> Columns:
    """Give vectors of weights, the first one that of word `first`, with each row's activations."""
    for index, words in enumerate(weights, start=first):
        yield words, [row.word(index) for row in rows]


def _without_offset(
    code: Code, span: Span, rows: Sequence[_RecordRow]
) -> tuple[Sequence[Value], bool, Sequence[Value]]:
    """Subtract the offset from the weights or from where the dot products start: weights, signed, starts."""
    zeros = [constant(I32X16, 0)] * len(rows)
    kind = code.instruction_set.weights
    if span.offset == 0:
        return span.weights, False, zeros
    if kind is Weights.ANY_UNSIGNED or (kind is Weights.SMALL_UNSIGNED and span.offset < 128):
        shift = (128 // span.offset).bit_length() - 1
        return span.weights, False, [_start(code, row, shift) for row in rows]
    return [_subtract_bytes(code, words, span.offset) for words in span.weights], True, zeros


def _start(code: Code, row: _RecordRow, shift: int) -> Value:
    """Load minus the sum of the activations times 128 >> shift."""
    start = row.part(START_128, I32)
    return code.builder.ashr(start, constant(I32X16, shift)) if shift else start


def _half_start(code: Code, start: Value, span: Span) -> Value:
    """Make minus the sum of half the activations times 32 that times the offset, 32 or 64."""
    shift = span.offset.bit_length() - 6
    return code.builder.shl(start, constant(I32X16, shift)) if shift else start


def _subtract_bytes(code: Code, words: Value, offset: int) -> Value:
    """Subtract a power of two from every byte; bytes are under twice the offset."""
    b = code.builder
    top = every_byte(I32X16, 128)
    if offset == 128:
        return b.xor(words, top)
    return b.xor(b.sub(b.or_(words, top), every_byte(I32X16, offset)), top)


def _multiply_halves(
    code: Code, span: Span, rows: Sequence[_RecordRow], totals: Sequence[Value]
) -> list[Value]:
    """total + d * (scale * sum(w x) + minimum * sum(x) of columns 0..15, and of 16..31)."""
    b = code.builder
    zeros = [constant(I32X16, 0)] * len(rows)
    parts: list[Value] = [None] * len(rows)
    for half, offset in enumerate((START_32_LOW, START_32_HIGH)):
        starts = [_half_start(code, row.part(offset, I32), span) for row in rows] if span.offset else zeros
        columns = _columns(span.weights[4 * half : 4 * half + 4], rows, 4 * half)
        for index, products in enumerate(add_products(code, starts, columns, span.bits, False)):
            value, scale = code.to_float(products), span.scales[half]
            parts[index] = code.fma(value, scale, parts[index]) if half else b.fmul(value, scale)
    for minimum, offset in zip(span.minimums, (START_32_LOW, START_32_HIGH), strict=False):
        factor = b.fmul(minimum, constant(F32X16, -1 / 32))  # exact; the record holds -32 times the sum
        parts = [
            code.fma(code.to_float(row.part(offset, I32)), factor, part)
            for row, part in zip(rows, parts, strict=True)
        ]
    return [
        code.fma(part, row.part(SCALE, F32), total)
        for part, row, total in zip(parts, rows, totals, strict=True)
    ]


def float_tile(form: FloatFormat, rows: int) -> Tile:
    """Return the emitter of a tile of float weights and `rows` float32 rows."""

    def emit(
        code: Code,
        weights: Value,
        blocks: Value,
        x: Value,
        stride: Value,
        y: Value,
        y_stride: Value,
        flags: Value,
    ) -> None:
        step = rows if code.instruction_set.wide_registers else min(rows, _NARROW_FLOAT_ROWS)
        for first in range(0, rows, step):
            these = range(first, min(rows, first + step))
            x_rows = [code.at(x, code.times(stride, index)) for index in these]
            totals = _float_pass(code, form, weights, blocks, x_rows)
            _store(code, totals, code.at(y, code.times(y_stride, first)), y_stride, flags)

    return emit


def _float_pass(
    code: Code, form: FloatFormat, weights: Value, columns: Value, x_rows: Sequence[Value]
) -> list[Value]:
    """Emit one walk over the weights; returns variables that hold the outputs of each row."""
    b = code.builder
    totals = [[code.variable(constant(F32X16, 0.0)) for _ in x_rows] for _ in range(2)]

    def multiply_column(index: Value, parity: int) -> None:
        column = form.load(code, code.at(weights, code.times(index, form.nbytes)))
        for slot, row in zip(totals[parity], x_rows, strict=True):
            x = code.load_splat(code.at(row, code.times(index, 4)), F32)
            b.store(code.fma(column, x, b.load(slot)), slot)

    with code.loop(b.lshr(columns, constant(I64, 1))) as pair:
        even = code.times(pair, 2)
        _prefetch_lines(code, code.at(weights, code.times(even, form.nbytes)), 2 * form.nbytes)
        multiply_column(even, 0)
        multiply_column(code.at(even, 1), 1)
    with code.loop(b.and_(columns, constant(I64, 1))):
        multiply_column(b.sub(columns, constant(I64, 1)), 0)
    for even_total, odd_total in zip(*totals, strict=True):
        b.store(b.fadd(b.load(even_total), b.load(odd_total)), even_total)
    return totals[0]


def _has(code: Code, flags: Value, flag: int) -> Value:
    b = code.builder
    return b.icmp_signed("!=", b.and_(flags, constant(I64, flag)), constant(I64, 0))


def _store(code: Code, accumulators: Sequence[Value], y: Value, y_stride: Value, flags: Value) -> None:
    b = code.builder
    adds = _has(code, flags, ADD)
    for index, slot in enumerate(accumulators):
        address = code.at(y, code.times(y_stride, index))
        total = b.load(slot)
        code.store(address, b.select(adds, b.fadd(code.load(address, F32X16), total), total))
