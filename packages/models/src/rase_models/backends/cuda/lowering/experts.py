"""Mixtures of experts: every row is multiplied with the matrices of its own experts.

In runs of many rows the rows are taken expert by expert.
"""

from dataclasses import dataclass

from rase_core.errors import BackendFailure

from rase_models.backends.cuda.device import Source
from rase_models.backends.cuda.lowering.elementwise import KINDS
from rase_models.backends.cuda.lowering.fusion import launch_gated
from rase_models.backends.cuda.lowering.products import (
    WARPS,
    Product,
    X,
    multiply,
    planes_of,
    product_arguments,
    run_buffer,
    source_of,
)
from rase_models.backends.cuda.lowering.run import ELEMENTWISE, Run, f32, i32, u64
from rase_models.backends.cuda.matrices import Matrix
from rase_models.program import MoeFfn, Scoring

_EXPERTS = Source("experts.cu")
MOST_EXPERTS = 1024
"""As in experts.cu, which keeps their scores in shared memory."""
_ADVICE = "use --device cpu"
_TILE = 8
"""Rows of one expert that are multiplied at once."""


def moe_ffn(op: MoeFfn, run: Run) -> None:
    used, inner = op.experts_used, run.weights[op.gate].outs
    choice, shares = _chosen(op, run)
    x, x_parts = run_buffer(run, op.x), 1
    if op.weighs_inputs:
        x, x_parts, shares = _weighed(op, run, shares), used, 0
    gate, up = (run.scratch(name, 4 * used * inner) for name in ("gates of experts", "ups of experts"))
    groups = None if run.is_small else _grouped(op, run, choice)
    of_gate, of_up = (
        Product(used, x_parts, choice, int(run.vector(bias)), int(run.constant(f32, scales)))
        for bias, scales in ((op.gate_bias, op.gate_scales), (op.up_bias, op.up_scales))
    )
    matrices = run.weights[op.gate], run.weights[op.up]
    if groups is None and matrices[0].source == matrices[1].source and not op.multiplies_once:
        biases = u64(of_up.bias), u64(of_up.part_scales)
        sources = source_of(run, x, matrices[0])
        launch_gated(run, int(gate), matrices, of_gate, biases, op.activation, sources)
    else:
        _multiply(run, x, int(gate), matrices[0], of_gate, groups)
        if op.multiplies_once:
            up = gate
        else:
            _multiply(run, x, int(up), matrices[1], of_up, groups)
        count, widths = run.rows * used * inner, (i32(inner), i32(inner))
        run.each(ELEMENTWISE, "gate", count, gate, gate, up, *widths, i32(KINDS[op.activation]))
    width = run.width(op.out)
    down = run.scratch("results of experts", 4 * used * width)
    product = Product(
        used, used, choice, int(run.vector(op.down_bias)), int(run.constant(f32, op.down_scales))
    )
    _multiply(run, X(int(gate), used * inner), int(down), run.weights[op.down], product, groups)
    out = run.written(op.out)
    run.each(_EXPERTS, "mix", run.rows * width, out, down, u64(shares), i32(width), i32(used))


@dataclass(frozen=True, slots=True)
class _Groups:
    """The addresses of the pairs of rows and places by their experts, and of tiles of them."""

    order: u64
    tiles: u64
    count: int


def _grouped(op: MoeFfn, run: Run, choice: int) -> _Groups:
    """Sort the pairs by their experts, so that the matrices of each are read for many rows at once."""
    pairs = run.rows * op.experts_used
    tiles = -(-pairs // _TILE) + min(op.experts, pairs)  # each expert's last one may be short
    counts = u64(run.workspace.whole("counts of experts", 4 * op.experts))
    order = run.scratch("pairs of experts", 4 * op.experts_used)
    kept = u64(run.workspace.whole("tiles of experts", 16 * tiles))
    grid, chosen = (op.experts, 1, 1), (u64(choice), i32(pairs))
    run.launch(_EXPERTS, "count_pairs", grid, counts, *chosen, threads=32)
    sizes = (i32(_TILE), i32(tiles))
    run.launch(_EXPERTS, "order_pairs", grid, order, kept, counts, *chosen, *sizes, threads=32)
    return _Groups(order, kept, tiles)


def _multiply(run: Run, x: X, out: int, matrix: Matrix, product: Product, groups: _Groups | None) -> None:
    """Add a product with the matrix that each row has chosen."""
    if groups is None:
        multiply(run, x, out, matrix, product)
        return
    grid = (-(-matrix.outs // WARPS), groups.count, 1)
    arguments = (*product_arguments(run, out, matrix, product), groups.order, groups.tiles)
    sources = (*planes_of(matrix), *source_of(run, x, matrix))
    run.launch(matrix.source, "multiply_eight_grouped", grid, *arguments, *sources, threads=32 * WARPS)


def _chosen(op: MoeFfn, run: Run) -> tuple[int, int]:
    """Return the addresses of the experts of each row and of their shares."""
    if op.experts > MOST_EXPERTS:
        raise BackendFailure(f"the cuda backend takes {MOST_EXPERTS} experts, not {op.experts}", _ADVICE)
    logits = run.scratch("logits of experts", 4 * op.experts)
    product = Product(bias=int(run.vector(op.router_bias)))
    multiply(run, run_buffer(run, op.router_x or op.x), int(logits), run.weights[op.router], product)
    choice, shares = (run.scratch(name, 4 * op.experts_used) for name in ("choice", "shares"))
    run.launch(
        _EXPERTS,
        "choose",
        (run.rows, 1, 1),
        *(choice, shares, logits, run.vector(op.selection_bias)),
        *(i32(op.experts), i32(op.experts_used), i32(op.scoring is Scoring.SOFTMAX), i32(op.normalise)),
        *(f32(op.scale), i32(op.groups), i32(op.groups_used)),
        threads=32,
    )
    return int(choice), int(shares)


def _weighed(op: MoeFfn, run: Run, shares: int) -> X:
    """Return the rows times the shares of their experts, one for each of them."""
    width = run.width(op.x)
    out = run.scratch("inputs of experts", 4 * op.experts_used * width)
    sizes = (i32(width), i32(op.experts_used))
    count = run.rows * op.experts_used * width
    run.each(_EXPERTS, "weigh", count, out, run.read(op.x), u64(shares), *sizes)
    return X(int(out), op.experts_used * width)
