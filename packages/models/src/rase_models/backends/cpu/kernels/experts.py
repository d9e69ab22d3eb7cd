"""Feed-forward networks of experts: rows are gathered by expert, multiplied, and combined again.

Only the experts that have rows are read. A row's result is the sum over its experts in ascending order, and
each product is computed as for a row alone, so a batch does not change it.
"""

from typing import Any

from rase_models.backends.cpu.abi import (
    CHOSEN,
    EXPERT_BIAS,
    EXPERT_BIAS_2,
    EXPERT_NBYTES,
    EXPERT_NBYTES_2,
    EXPERT_SCALES,
    EXPERT_SCALES_2,
    EXPERTS_USED,
    FLAGS,
    GROUP_BYTES,
    GROUP_COUNT,
    GROUP_EXPERT,
    GROUP_FIRST_SLOT,
    GROUP_ROWS,
    GROUPS,
    OUTPUT_RECORDS,
    RECORDS,
    ROUTES,
    ROW_SLOTS,
    SHARES,
    W2,
    WEIGHS_INPUTS,
    WRITE_RECORDS,
    X_STRIDE,
    Y_STRIDE,
    K,
    N,
    W,
    X,
    Y,
)
from rase_models.backends.cpu.activations import RECORD_ROW_NBYTES
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS as ROWS_OF_GROUP
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.forms import form_named
from rase_models.backends.cpu.kernels.gated_activation import gate_named
from rase_models.backends.cpu.kernels.matrices import multiply_group
from rase_models.backends.cpu.kernels.pairs import PAIR_COLUMNS, PAIR_LINE, multiply_pair
from rase_models.backends.cpu.kernels.records import quantise_values, write_record
from rase_models.backends.cpu.kernels.routes import route_array
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count, scratch
from rase_models.backends.cpu.packing import WeightFormat
from rase_models.backends.cpu.shapes import GROUP_LINE, ROW_BLOCK
from rase_models.backends.cpu.simd import (
    add,
    compiled,
    f32,
    fma,
    load_f32,
    load_f32x16,
    load_i32,
    load_i64,
    multiply,
    splat,
    store_f32x16,
)


@compiled
def _group(op: int, index: int) -> int:
    return route_array(op, GROUPS) + GROUP_BYTES * index


@compiled
def _slot_records(records: int, columns: int, slot: int) -> int:
    """Return where the records of the group that begins at a slot begin."""
    return records + slot * (columns >> 5) * RECORD_ROW_NBYTES


def _slots(form: WeightFormat) -> Any:
    """Return the compiled function slots(op, slot) -> where the input from a slot on begins, K wide."""
    is_quantised = form.is_quantised

    @compiled
    def slots(op: int, slot: int) -> int:
        if is_quantised:
            return int(_slot_records(load_i64(op + RECORDS), load_i64(op + K), slot))
        return int(load_i64(op + X) + slot * load_i64(op + X_STRIDE))

    return slots


@compiled
def _group_of(op: int, expert: int) -> int:
    """Return the group of an expert that has rows; groups are in the order of their experts."""
    low, high = 0, load_i64(load_i64(op + ROUTES) + GROUP_COUNT) - 1
    while low < high:
        middle = (low + high) >> 1
        if load_i64(_group(op, middle) + GROUP_EXPERT) < expert:
            low = middle + 1
        else:
            high = middle
    return int(_group(op, low))


@compiled
def _gather(thread: int, op: int, context: int, entry: int) -> None:
    """Copy one row to one of its slots, as records or as float32."""
    row = entry // load_i64(op + EXPERTS_USED)
    slot = int(load_i32(route_array(op, ROW_SLOTS) + 4 * entry))
    source, width = input_row(op, context, row), load_i64(op + N)
    if load_i64(op + WEIGHS_INPUTS):
        weighed, part = scratch(thread, context), splat(load_f32(route_array(op, SHARES) + 4 * entry))
        for offset in range(0, 4 * width, 64):
            store_f32x16(weighed + offset, multiply(load_f32x16(source + offset), part))
        source = weighed
    if load_i64(op + FLAGS) & WRITE_RECORDS:
        group = _group_of(op, int(load_i32(route_array(op, CHOSEN) + 4 * entry)))
        first, rows = load_i64(group + GROUP_FIRST_SLOT), load_i64(group + GROUP_ROWS)
        records = _slot_records(load_i64(op + RECORDS), width, first)
        quantise_values(records, rows, width >> 5, slot - first, 0, source, width)
    else:
        target = load_i64(op + Y) + slot * load_i64(op + Y_STRIDE)
        for offset in range(0, 4 * width, 64):
            store_f32x16(target + offset, load_f32x16(source + offset))


@compiled
def _entry_count(op: int, context: int) -> int:
    return int(row_count(op, context) * load_i64(op + EXPERTS_USED))


def gather_experts() -> Any:
    """Build the kernel that copies the rows of X, N wide, to their slots: to RECORDS, or to Y."""
    return share(_entry_count, _gather, 4)


@compiled
def _group_count(op: int) -> int:
    return int(load_i64(load_i64(op + ROUTES) + GROUP_COUNT))


@compiled
def _pair_count(op: int, context: int) -> int:
    return int(_group_count(op) * (load_i64(op + N) // PAIR_COLUMNS)) if row_count(op, context) > 0 else 0


@compiled
def _scale_of(scales: int, expert: int) -> Any:
    return load_f32(scales + 4 * expert) if scales != 0 else f32(1.0)


@compiled
def _with_bias(op: int, biases: int, expert: int, column: int, values: Any) -> Any:
    """Add an expert's biases from a column on, if there are any, to 16 values."""
    if biases == 0:
        return values
    return add(values, load_f32x16(biases + 4 * (expert * load_i64(op + N) + column)))


def gated_experts(
    format_name: str, up_format_name: str, activation: str, writes_records: int, same: int = 0
) -> Any:
    """Build the kernel of activation(gate) * up for the slots, gate W and up W2, N outputs of K columns.

    The input is RECORDS or X, by each one's type, the output OUTPUT_RECORDS or Y, by `writes_records`. W2 may
    be the `same` matrices as W.
    """
    gate_form, up_form = form_named(format_name), form_named(up_format_name)
    gate_slots, up_slots, gate_function = _slots(gate_form), _slots(up_form), gate_named(activation)

    @compiled
    def gated(op: int, expert: int, column: int, gate: int, up: int) -> Any:
        gate_scale = _scale_of(load_i64(op + EXPERT_SCALES), expert)
        up_scale = _scale_of(load_i64(op + EXPERT_SCALES_2), expert)
        gates, ups = (
            multiply(load_f32x16(gate), splat(gate_scale)),
            multiply(load_f32x16(up), splat(up_scale)),
        )
        gates = _with_bias(op, load_i64(op + EXPERT_BIAS), expert, column, gates)
        return gate_function(gates, _with_bias(op, load_i64(op + EXPERT_BIAS_2), expert, column, ups))

    @compiled
    def write_pair(op: int, group: int, pair: int, row: int, gate: int, up: int) -> None:
        expert, first = load_i64(group + GROUP_EXPERT), load_i64(group + GROUP_FIRST_SLOT)
        low = gated(op, expert, PAIR_COLUMNS * pair, gate, up)
        high = gated(op, expert, PAIR_COLUMNS * pair + ROWS_OF_GROUP, gate + GROUP_LINE, up + GROUP_LINE)
        if writes_records:
            width = load_i64(op + N)
            records = _slot_records(load_i64(op + OUTPUT_RECORDS), width, first)
            write_record(records, load_i64(group + GROUP_ROWS), width >> 5, row, pair, low, high)
        else:
            y = load_i64(op + Y) + (first + row) * load_i64(op + Y_STRIDE) + PAIR_LINE * pair
            store_f32x16(y, low)
            store_f32x16(y + GROUP_LINE, high)

    multiply_rows = multiply_pair(gate_form, up_form, write_pair, same=bool(same))

    @compiled
    def multiply_unit(thread: int, op: int, context: int, unit: int) -> None:
        pairs = load_i64(op + N) // PAIR_COLUMNS
        group = _group(op, unit // pairs)
        expert, slot, rows = (
            load_i64(group + GROUP_EXPERT),
            load_i64(group + GROUP_FIRST_SLOT),
            load_i64(group + GROUP_ROWS),
        )
        gate = load_i64(op + W) + expert * load_i64(op + EXPERT_NBYTES)
        up = load_i64(op + W2) + expert * load_i64(op + EXPERT_NBYTES_2)
        gate_x, up_x = gate_slots(op, slot), up_slots(op, slot)
        multiply_rows(op, group, unit % pairs, rows, gate, up, gate_x, up_x, scratch(thread, context))

    return share(_pair_count, multiply_unit, 4)


@compiled
def _output_group_count(op: int, context: int) -> int:
    groups = (load_i64(op + N) + ROWS_OF_GROUP - 1) // ROWS_OF_GROUP
    return int(_group_count(op) * groups) if row_count(op, context) > 0 else 0


def expert_linear(format_name: str) -> Any:
    """Build the kernel that multiplies the slots, RECORDS or X, by W, N outputs of K columns, into Y."""
    form = form_named(format_name)
    slots, block_columns, block_nbytes = _slots(form), form.columns, form.nbytes
    multiply_rows = multiply_group(form)

    @compiled
    def multiply_slots(thread: int, op: int, context: int, unit: int) -> None:
        groups = (load_i64(op + N) + ROWS_OF_GROUP - 1) // ROWS_OF_GROUP
        group = _group(op, unit // groups)
        outputs, rows = unit % groups, load_i64(group + GROUP_ROWS)
        slot, blocks = load_i64(group + GROUP_FIRST_SLOT), load_i64(op + K) // block_columns
        weights = load_i64(op + W) + load_i64(group + GROUP_EXPERT) * load_i64(op + EXPERT_NBYTES)
        weights += outputs * blocks * block_nbytes
        x, x_stride, y_stride = slots(op, slot), load_i64(op + X_STRIDE), load_i64(op + Y_STRIDE)
        y = load_i64(op + Y) + slot * y_stride + GROUP_LINE * outputs
        for row in range(0, rows, ROW_BLOCK):
            end, target = min(rows, row + ROW_BLOCK), y + row * y_stride
            multiply_rows(weights, blocks, x, x_stride, int(rows == 1), row, end, target, y_stride, 0)

    return share(_output_group_count, multiply_slots, 4)


@compiled
def _combine(thread: int, op: int, context: int, row: int) -> None:
    """Write the weighted sum of a row's slots, in the order of their experts."""
    used, width, target = load_i64(op + EXPERTS_USED), load_i64(op + N), output_row(op, context, row)
    slots, shares = route_array(op, ROW_SLOTS) + 4 * used * row, route_array(op, SHARES) + 4 * used * row
    chosen, scales = route_array(op, CHOSEN) + 4 * used * row, load_i64(op + EXPERT_SCALES)
    biases = load_i64(op + EXPERT_BIAS)
    for offset in range(0, 4 * width, 64):
        total = splat(f32(0.0))
        for index in range(used):
            expert = int(load_i32(chosen + 4 * index))
            part = f32(1.0) if load_i64(op + WEIGHS_INPUTS) else load_f32(shares + 4 * index)
            slot = load_i64(op + X) + int(load_i32(slots + 4 * index)) * load_i64(op + X_STRIDE)
            total = fma(load_f32x16(slot + offset), splat(part * _scale_of(scales, expert)), total)
            if biases != 0:
                bias = load_f32x16(biases + 4 * expert * width + offset)
                total = fma(bias, splat(part), total)
        store_f32x16(target + offset, total)


def combine_experts() -> Any:
    """Build the kernel that adds the slots X, N wide, up into the rows Y."""
    return share(row_count, _combine, 4)
