"""Mixtures of experts: every row is multiplied with the matrices of its own experts."""

from rase_models.backends.cuda.device import Source
from rase_models.backends.cuda.lowering.elementwise import KINDS
from rase_models.backends.cuda.lowering.products import Product, X, multiply, run_buffer
from rase_models.backends.cuda.lowering.run import ELEMENTWISE, Run, f32, i32, u64
from rase_models.program import MoeFfn, Scoring

_EXPERTS = Source("experts.cu")


def moe_ffn(op: MoeFfn, run: Run) -> None:
    used, inner = op.experts_used, run.weights[op.gate].outs
    choice, shares = _chosen(op, run)
    x, x_parts = run_buffer(run, op.x), 1
    if op.weighs_inputs:
        x, x_parts, shares = _weighed(op, run, shares), used, 0
    gate, up = (run.scratch(name, 4 * used * inner) for name in ("gates of experts", "ups of experts"))
    products = ((op.gate, op.gate_bias, op.gate_scales, gate), (op.up, op.up_bias, op.up_scales, up))
    for weight, bias, scales, out in products:
        product = Product(used, x_parts, choice, int(run.vector(bias)), int(run.constant(f32, scales)))
        multiply(run, x, int(out), run.weights[weight], product)
    count, widths = run.rows * used * inner, (i32(inner), i32(inner))
    run.each(ELEMENTWISE, "gate", count, gate, gate, up, *widths, i32(KINDS[op.activation]))
    width = run.width(op.out)
    down = run.scratch("results of experts", 4 * used * width)
    product = Product(
        used, used, choice, int(run.vector(op.down_bias)), int(run.constant(f32, op.down_scales))
    )
    multiply(run, X(int(gate), used * inner), int(down), run.weights[op.down], product)
    out = run.written(op.out)
    run.each(_EXPERTS, "mix", run.rows * width, out, down, u64(shares), i32(width), i32(used))


def _chosen(op: MoeFfn, run: Run) -> tuple[int, int]:
    """Return the addresses of the experts of each row and of their shares."""
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
