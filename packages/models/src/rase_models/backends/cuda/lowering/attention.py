"""Attention over the paged cache."""

from rase_models.backends.cuda.lowering.run import Run, f32, i32, u64
from rase_models.program import Attention

_SHARED_NBYTES = 44 * 1024  # of the 48 KiB that every GPU gives a block without being asked
_MOST_HEADS = 8
_SPLITS = 16
"""Parts of the context that few rows are attended to in, so that one row keeps a GPU busy."""


def attention(op: Attention, run: Run) -> None:
    cache, group = run.caches[op.layer], i32(run.caches[op.layer].group)
    where = (
        run.input("positions"),
        run.input("sequences"),
        u64(run.inputs.tables),
        u64(run.inputs.shape),
        group,
    )
    keys, values = u64(cache.keys.address), u64(cache.values.address)
    widths = (i32(op.head_count_kv * op.key_length), i32(op.head_count_kv * op.value_length))
    if op.k is not None and op.v is not None:
        new = (run.read(op.k), run.read(op.v))
        run.launch(run.attention, "store", (run.rows, 1, 1), keys, values, *new, *where, *widths)
    splits = _SPLITS if run.is_small else 1
    sums = run.scratch("sums", 4 * op.head_count * op.value_length * splits)
    states = run.scratch("states", 8 * op.head_count * splits)
    per_block, tile = block_shape(op)
    run.launch(
        run.attention,
        "attend",
        (run.rows, op.head_count // per_block, splits),
        *(sums, states, run.read(op.q), keys, values),
        *where,
        *(i32(op.head_count), i32(op.head_count_kv), i32(op.key_length), i32(op.value_length)),
        *(f32(op.scale), i32(op.window or 0), i32(op.chunked), f32(op.soft_cap or 0.0)),
        *(run.constant(f32, op.slopes), i32(per_block), i32(tile)),
        threads=128,
        shared=_shared_nbytes(op, per_block, tile),
    )
    sinks, rest = run.vector(op.sinks), (i32(op.value_length), i32(splits))
    out = run.written(op.out)
    run.launch(
        run.attention, "join", (op.head_count, run.rows, 1), out, sums, states, sinks, *rest, threads=64
    )


def block_shape(op: Attention) -> tuple[int, int]:
    """Return how many heads of one KV head share a block, and how many positions it loads at once."""
    shared = op.head_count // op.head_count_kv
    heads = max(count for count in range(1, _MOST_HEADS + 1) if shared % count == 0)
    for count in (heads, *(count for count in (4, 2, 1) if heads % count == 0)):
        for tile in (32, 16, 8):
            if _shared_nbytes(op, count, tile) <= _SHARED_NBYTES:
                return count, tile
    return 1, 1


def _shared_nbytes(op: Attention, heads: int, tile: int) -> int:
    longest = max(op.key_length, op.value_length)
    return 4 * (heads * (op.key_length + op.value_length + tile + 3) + tile * longest)
