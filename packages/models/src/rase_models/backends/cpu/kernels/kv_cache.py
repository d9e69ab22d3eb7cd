"""Where keys and values lie in the paged cache, and how they get there.

A block holds BLOCK_TOKENS positions of all layers. Of a layer it has, for each KV head, the keys transposed,
float16 [key_length][positions], then the values, float16 [positions][value_length]. Keys are transposed so
that the scores of 16 positions are computed in the lanes of one vector.
"""

from typing import Any

from rase_models.backends.cpu.abi import (
    BLOCK_TABLE_STRIDE,
    BLOCK_TABLES,
    KEY_LENGTH,
    KV_BLOCKS,
    KV_HEADS,
    KV_OFFSET,
    SEQUENCES,
    V_STRIDE,
    VALUE_LENGTH,
    X_STRIDE,
    V,
    X,
)
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import position_of, row_count
from rase_models.backends.cpu.shapes import BLOCK_SHIFT, IN_BLOCK, KEY_LINE
from rase_models.backends.cpu.simd import (
    compiled,
    f32,
    load_f32,
    load_f32x16,
    load_i32,
    load_i64,
    maximum,
    minimum,
    splat,
    store_f16,
    store_f16x16,
)

LARGEST_HALF = 65504.0
"""Larger values are stored as this one: an infinity would spoil rows that do not even see it (0 * inf)."""


@compiled
def block_address(op: int, context: int, sequence: int, position: int) -> int:
    """Return the address of the layer's part of the block that holds a position."""
    table = load_i64(context + BLOCK_TABLES) + sequence * load_i64(context + BLOCK_TABLE_STRIDE)
    block = int(load_i32(table + 4 * (position >> BLOCK_SHIFT)))
    return int(load_i64(load_i64(context + KV_BLOCKS) + 8 * block) + load_i64(op + KV_OFFSET))


@compiled
def sequence_of(context: int, row: int) -> int:
    """Return the sequence of a row."""
    return int(load_i32(load_i64(context + SEQUENCES) + 4 * row))


@compiled
def keys_of(block: int, op: int, kv_head: int) -> int:
    """Return the address of the keys of one head in a block."""
    return int(block + kv_head * (load_i64(op + KEY_LENGTH) + load_i64(op + VALUE_LENGTH)) * KEY_LINE)


@compiled
def store_head(block: int, op: int, kv_head: int, position: int, key: int, value: int) -> None:
    """Store one head's key and value, float32 at two addresses, at a position."""
    length, slot = load_i64(op + KEY_LENGTH), position & IN_BLOCK
    keys = keys_of(block, op, kv_head)
    least, most = f32(-LARGEST_HALF), f32(LARGEST_HALF)
    for i in range(length):
        store_f16(keys + KEY_LINE * i + 2 * slot, min(max(load_f32(key + 4 * i), least), most))
    width = load_i64(op + VALUE_LENGTH)
    values = keys + KEY_LINE * length + 2 * width * slot
    for i in range(0, width, 16):
        v = minimum(maximum(load_f32x16(value + 4 * i), splat(least)), splat(most))
        store_f16x16(values + 2 * i, v)


@compiled
def _store_row(thread: int, op: int, context: int, row: int) -> None:
    position = position_of(context, row)
    block = block_address(op, context, sequence_of(context, row), position)
    key = load_i64(op + X) + row * load_i64(op + X_STRIDE)
    value = load_i64(op + V) + row * load_i64(op + V_STRIDE)
    for head in range(load_i64(op + KV_HEADS)):
        store_head(block, op, head, position, key, value)
        key += 4 * load_i64(op + KEY_LENGTH)
        value += 4 * load_i64(op + VALUE_LENGTH)


def store_kv() -> Any:
    """Build the kernel that stores the keys X and the values V of all rows."""
    return share(row_count, _store_row, 4)
