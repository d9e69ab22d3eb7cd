"""From a file's rows to groups of 16: emitted as repack(thread, threads, source, target, rows, columns).

Groups are split over the threads. All arguments are int64; source and target are addresses.
"""

from collections.abc import Callable, Iterator

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I64, Value, constant
from rase_models.backends.cpu.formats.floats import FloatFormat
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS, PackedFormat, RowBlock

Repack = Callable[..., None]


def repack(form: PackedFormat | FloatFormat) -> Repack:
    """Return the emitter of the repacking of one matrix."""

    def emit(
        code: Code, thread: Value, threads: Value, source: Value, target: Value, rows: Value, columns: Value
    ) -> None:
        b = code.builder
        blocks = b.udiv(columns, constant(I64, form.columns))
        row_nbytes = code.times(blocks, form.file_nbytes)
        for group in _groups_of_thread(code, thread, threads, rows):
            packed = code.at(target, b.mul(group, code.times(blocks, form.nbytes)))
            with code.loop(blocks) as index:
                packed_block = code.at(packed, code.times(index, form.nbytes))
                with code.loop(constant(I64, GROUP_ROWS)) as lane:
                    row = code.at(code.times(group, GROUP_ROWS), lane)
                    present = b.icmp_signed("<", row, rows)
                    # Reading row 0 in place of a missing one is safe; what is read is replaced by zeros.
                    start = b.mul(b.select(present, row, constant(I64, 0)), row_nbytes)
                    start = code.at(code.at(source, start), code.times(index, form.file_nbytes))
                    form.pack(RowBlock(code, start, packed_block, lane, present))

    return emit


def _groups_of_thread(code: Code, thread: Value, threads: Value, rows: Value) -> Iterator[Value]:
    """Emit the loop over a thread's share of the groups; gives the number of the group, once, inside."""
    b = code.builder
    groups = b.udiv(code.at(rows, GROUP_ROWS - 1), constant(I64, GROUP_ROWS))
    first = b.udiv(b.mul(groups, thread), threads)
    last = b.udiv(b.mul(groups, code.at(thread, 1)), threads)
    with code.loop(b.sub(last, first)) as index:
        yield b.add(first, index)
