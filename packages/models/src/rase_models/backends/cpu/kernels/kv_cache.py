"""Where keys and values lie in the paged cache, and how they get there.

A block holds BLOCK_TOKENS positions of all layers of a group. Of a layer it has, for each KV head, the keys
and then the values, in a form of `formats.kv_forms`.
"""

from functools import cache
from typing import Any

from rase_models.backends.cpu.abi import (
    BLOCK_TABLE_STRIDE,
    BLOCK_TABLES,
    BLOCK_TABLES_STRIDE,
    KEY_LENGTH,
    KEYS_NBYTES,
    KV_BLOCKS,
    KV_GROUP,
    KV_HEAD_NBYTES,
    KV_HEADS,
    KV_OFFSET,
    SEQUENCES,
    V_STRIDE,
    VALUE_LENGTH,
    X_STRIDE,
    V,
    X,
)
from rase_models.backends.cpu.formats.kv_form import KvForm
from rase_models.backends.cpu.formats.kv_forms import KV_FORMS
from rase_models.backends.cpu.kernels.attention_tiles import store_operations
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import position_of, row_count
from rase_models.backends.cpu.shapes import BLOCK_SHIFT, IN_BLOCK
from rase_models.backends.cpu.simd import compiled, load_i32, load_i64
from rase_models.kv_type import KvType


@compiled
def block_address(op: int, context: int, sequence: int, position: int) -> int:
    """Return the address of the layer's part of the block that holds a position."""
    group = load_i64(op + KV_GROUP)
    tables = load_i64(context + BLOCK_TABLES) + group * load_i64(context + BLOCK_TABLES_STRIDE)
    table = tables + sequence * load_i64(context + BLOCK_TABLE_STRIDE)
    block = int(load_i32(table + 4 * (position >> BLOCK_SHIFT)))
    addresses = load_i64(load_i64(context + KV_BLOCKS) + 8 * group)
    return int(load_i64(addresses + 8 * block) + load_i64(op + KV_OFFSET))


@compiled
def sequence_of(context: int, row: int) -> int:
    """Return the sequence of a row."""
    return int(load_i32(load_i64(context + SEQUENCES) + 4 * row))


@compiled
def keys_of(block: int, op: int, kv_head: int) -> int:
    """Return the address of the keys of one head in a block."""
    return int(block + kv_head * load_i64(op + KV_HEAD_NBYTES))


@compiled
def values_of(keys: int, op: int) -> int:
    """Return the address of the values of the head whose keys are at an address."""
    return int(keys + load_i64(op + KEYS_NBYTES))


@cache
def store_head(form: KvForm) -> Any:
    """Return the function that stores one head's key and value at a position.

    It is store(block, op, kv_head, position, key, value), the last two addresses of float32.
    """
    store_key, store_value = store_operations(form)

    @compiled
    def store(block: int, op: int, kv_head: int, position: int, key: int, value: int) -> None:
        slot, keys = position & IN_BLOCK, keys_of(block, op, kv_head)
        store_key(keys, load_i64(op + KEY_LENGTH), slot, key)
        store_value(values_of(keys, op), load_i64(op + VALUE_LENGTH), slot, value)

    return store


def store_kv(kv_type: str) -> Any:
    """Build the kernel that stores the keys X and the values V of all rows in a form."""
    store = store_head(KV_FORMS[KvType(kv_type)])

    @compiled
    def store_row(thread: int, op: int, context: int, row: int) -> None:
        position = position_of(context, row)
        block = block_address(op, context, sequence_of(context, row), position)
        key = load_i64(op + X) + row * load_i64(op + X_STRIDE)
        value = load_i64(op + V) + row * load_i64(op + V_STRIDE)
        for head in range(load_i64(op + KV_HEADS)):
            store(block, op, head, position, key, value)
            key += 4 * load_i64(op + KEY_LENGTH)
            value += 4 * load_i64(op + VALUE_LENGTH)

    return share(row_count, store_row, 4)
