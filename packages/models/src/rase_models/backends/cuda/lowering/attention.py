"""Attention over the paged cache."""

from dataclasses import dataclass
from itertools import product

from rase_core.errors import BackendFailure

from rase_models.backends.cuda.lowering.run import Run, f32, i32, u64
from rase_models.program import Attention

_SHARED_NBYTES = 44 * 1024  # of the 48 KiB that every GPU gives a block without being asked
_MOST_HEADS, _MOST_ROWS = 8, 16
_ENOUGH = 8
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
    shape = block_shape(op, has_many_rows=not run.is_small)
    run.launch(
        run.attention,
        "attend_one" if run.is_small else "attend_four",
        (-(-run.rows // shape.rows), op.head_count // shape.heads, splits),
        *(sums, states, run.read(op.q), keys, values),
        *where,
        *(i32(op.head_count), i32(op.head_count_kv), i32(op.key_length), i32(op.value_length)),
        *(f32(op.scale), i32(op.window or 0), i32(op.chunked), f32(op.soft_cap or 0.0)),
        *(run.constant(f32, op.slopes), i32(shape.heads), i32(shape.tile), i32(run.rows), i32(shape.rows)),
        threads=128,
        shared=_shared_nbytes(op, shape),
    )
    sinks, rest = run.vector(op.sinks), (i32(op.value_length), i32(splits))
    out = run.written(op.out)
    run.launch(
        run.attention, "join", (op.head_count, run.rows, 1), out, sums, states, sinks, *rest, threads=64
    )


@dataclass(frozen=True, slots=True)
class BlockShape:
    """How much a block attends with.

    Attributes:
        group: queries for which a thread reads a key or a value once.
        heads: of one KV head.
        rows: of one sequence.
        tile: positions that are loaded at once.
    """

    group: int
    heads: int
    rows: int
    tile: int

    @property
    def queries(self) -> int:
        """The queries that have a place in shared memory."""
        return -(-self.heads * self.rows // self.group) * self.group


def block_shape(op: Attention, *, has_many_rows: bool) -> BlockShape:
    """Return the largest block for which shared memory suffices; raises BackendFailure if there is none."""
    group, most_rows = (4, _MOST_ROWS) if has_many_rows else (1, 1)
    shared = op.head_count // op.head_count_kv
    heads = max(count for count in range(1, _MOST_HEADS + 1) if shared % count == 0)
    counts = (heads, *(count for count in (4, 2, 1) if count < heads and heads % count == 0))
    rows = [1 << power for power in reversed(range(most_rows.bit_length()))]
    shapes = (BlockShape(group, *shape) for shape in product(counts, rows, (32, 16, 8)))
    fitting = [shape for shape in shapes if _shared_nbytes(op, shape) <= _SHARED_NBYTES]
    if not fitting:
        lengths = f"{op.key_length} and {op.value_length}"
        raise BackendFailure(f"the cuda backend takes no heads as long as {lengths}", "use --device cpu")
    return max(fitting, key=lambda shape: (shape.queries >= _ENOUGH, shape.tile, shape.queries))


def _shared_nbytes(op: Attention, shape: BlockShape) -> int:
    longest = max(op.key_length, op.value_length) | 1
    query = op.key_length + op.value_length + shape.tile + 3
    return 4 * (shape.queries * query + shape.tile * longest)
