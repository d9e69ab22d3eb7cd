"""What happens to queries, keys and values between their projections and attention, in one op."""

from typing import Any

from rase_models.backends.cpu.abi import (
    EPSILON,
    HEADS,
    K_NORM,
    KEY_LENGTH,
    KV_HEADS,
    Q_NORM,
    Q_STRIDE,
    ROPE_DIMENSIONS,
    V_STRIDE,
    VALUE_LENGTH,
    X_STRIDE,
    Q,
    V,
    X,
)
from rase_models.backends.cpu.formats.kv_forms import KV_FORMS
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.kv_cache import block_address, sequence_of, store_head
from rase_models.backends.cpu.kernels.norm import norm_to
from rase_models.backends.cpu.kernels.rope import turn
from rase_models.backends.cpu.kernels.rows import position_of, row_count
from rase_models.backends.cpu.simd import compiled, load_f32, load_i64
from rase_models.kv_type import KvType


@compiled
def _prepare(x: int, weight: int, position: int, op: int) -> None:
    """Norm one head, if there is a weight, and turn it, in place."""
    if weight != 0:
        norm_to(x, weight, x, load_i64(op + KEY_LENGTH), load_f32(op + EPSILON))
    if load_i64(op + ROPE_DIMENSIONS) > 0:
        turn(x, position, op)


@compiled
def _head_count(op: int, context: int) -> int:
    return int(row_count(op, context) * (load_i64(op + HEADS) + load_i64(op + KV_HEADS)))


def prepare_heads(kv_type: str) -> Any:
    """Build the kernel that norms and turns heads of Q and of the keys X, and stores X and the values V."""
    store = store_head(KV_FORMS[KvType(kv_type)])

    @compiled
    def prepare_head(thread: int, op: int, context: int, unit: int) -> None:
        """Prepare a query head in place, or a key head that then goes into the cache with its value."""
        heads = load_i64(op + HEADS)
        row = unit // (heads + load_i64(op + KV_HEADS))
        kv_head = unit - row * (heads + load_i64(op + KV_HEADS)) - heads
        position, length = position_of(context, row), load_i64(op + KEY_LENGTH)
        if kv_head < 0:
            q = load_i64(op + Q) + row * load_i64(op + Q_STRIDE) + 4 * length * (heads + kv_head)
            _prepare(q, load_i64(op + Q_NORM), position, op)
            return
        key = load_i64(op + X) + row * load_i64(op + X_STRIDE) + 4 * length * kv_head
        value = load_i64(op + V) + row * load_i64(op + V_STRIDE) + 4 * load_i64(op + VALUE_LENGTH) * kv_head
        _prepare(key, load_i64(op + K_NORM), position, op)
        block = block_address(op, context, sequence_of(context, row), position)
        store(block, op, kv_head, position, key, value)

    return share(_head_count, prepare_head, 2)
