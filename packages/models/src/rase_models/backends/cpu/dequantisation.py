"""One row of a packed matrix as float32: an embedding's lookup. Emitted as row(weights, row, blocks, y)."""

from collections.abc import Callable

from llvmlite import ir

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32X16, I8, I32, I64, LANES, Value, constant, vector
from rase_models.backends.cpu.formats.floats import FloatFormat
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS, PackedFormat, Span

Row = Callable[..., None]


def quantised_row(form: PackedFormat) -> Row:
    """Return the emitter that writes a row (int64 index) of a packed matrix to float32 [columns] at y."""

    def emit(code: Code, weights: Value, row: Value, blocks: Value, y: Value) -> None:
        b = code.builder
        group, lane = b.lshr(row, constant(I64, 4)), b.and_(row, constant(I64, GROUP_ROWS - 1))
        output = code.variable(y)
        base = code.at(weights, b.mul(group, code.times(blocks, form.nbytes)))
        with code.loop(blocks) as index:
            block = code.at(base, code.times(index, form.nbytes))
            header = form.header(code, block)
            with code.loop(constant(I64, form.chunks)) as chunk:
                offset = code.at(code.times(chunk, form.chunk_nbytes), form.header_nbytes)
                for span in form.spans(code, header, block, code.at(block, offset), chunk):
                    address = b.load(output)
                    _store_span(code, span, lane, address)
                    b.store(code.at(address, 4 * 32), output)

    return emit


def _store_span(code: Code, span: Span, lane: Value, address: Value) -> None:
    """Compute 32 weights of a lane, rounded as GGML's own dequantisation rounds them."""
    b = code.builder
    for half in range(2):
        words = ir.Constant(vector(I32, 4), ir.Undefined)
        for index in range(4):
            word = code.any_lane(span.weights[4 * half + index], lane)
            words = b.insert_element(words, word, constant(I32, index))
        wide = b.zext(b.bitcast(words, vector(I8, LANES)), vector(I32, LANES))
        values = b.sitofp(b.sub(wide, constant(wide.type, span.offset)), F32X16)
        values = b.fmul(values, code.splat(code.any_lane(span.scales[half % len(span.scales)], lane)))
        if span.minimums:
            minimum = span.minimums[half % len(span.minimums)]
            values = b.fadd(values, code.splat(code.any_lane(minimum, lane)))
        code.store(code.at(address, 64 * half), values)


def float_row(form: FloatFormat) -> Row:
    """Return the emitter that writes a row (int64 index) of packed floats to float32 [columns] at y."""

    def emit(code: Code, weights: Value, row: Value, blocks: Value, y: Value) -> None:
        b = code.builder
        group, lane = b.lshr(row, constant(I64, 4)), b.and_(row, constant(I64, GROUP_ROWS - 1))
        base = code.at(weights, b.mul(group, code.times(blocks, form.nbytes)))
        base = code.at(base, code.times(lane, form.element_nbytes))
        with code.loop(blocks) as index:
            address = code.at(base, code.times(index, form.nbytes))
            value = code.load(address, form.element, form.element_nbytes)
            code.store(code.at(y, code.times(index, 4)), form.convert(code, value), 4)

    return emit
