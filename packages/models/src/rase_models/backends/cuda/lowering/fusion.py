"""Several ops in one launch, in runs of few rows: products of the same rows, gates with what they gate."""

from collections.abc import Iterator, Sequence
from dataclasses import fields

import numpy as np

from rase_models.backends.cuda.lowering.elementwise import KINDS
from rase_models.backends.cuda.lowering.products import (
    WARPS,
    Product,
    planes_of,
    product_arguments,
    rows_at_once,
    run_buffer,
    source_of,
)
from rase_models.backends.cuda.lowering.run import Run, i32, u64
from rase_models.backends.cuda.matrices import Matrix
from rase_models.program import Activation, GatedActivation, Linear, Op

_MOST_JOINED = 3


def fuse(ops: Sequence[Op], index: int, run: Run) -> int:
    """Launch the ops from `index` on together, and return how many; 0 where there is no such kernel."""
    if not run.is_small or not isinstance(ops[index], Linear):
        return 0
    return _gate(ops, index, run) or _join(ops, index, run)


def _gate(ops: Sequence[Op], index: int, run: Run) -> int:
    """Multiply by gate and up and activate."""
    if index + 3 > len(ops):
        return 0
    gate, up, activation = ops[index : index + 3]
    if not (isinstance(gate, Linear) and isinstance(up, Linear) and isinstance(activation, GatedActivation)):
        return 0
    names = {gate.out, up.out}
    if (
        len(names) < 2
        or (activation.gate, activation.up) != (gate.out, up.out)
        or gate.x in {*names, activation.out}
    ):
        return 0
    if not _are_alike(gate, up, run) or any(is_read(ops[index + 3 :], n) for n in names - {activation.out}):
        return 0
    first, second = run.weights[gate.weight], run.weights[up.weight]
    if first.outs != second.outs:
        return 0
    x, product = run_buffer(run, gate.x), Product(bias=int(run.vector(gate.bias)))
    sources = source_of(run, x, first)
    out = int(run.written(activation.out))
    launch_gated(
        run, out, (first, second), product, (run.vector(up.bias), u64(0)), activation.activation, sources
    )
    return 3


def launch_gated(
    run: Run,
    out: int,
    matrices: tuple[Matrix, Matrix],
    product: Product,
    up: tuple[u64, u64],
    activation: Activation,
    sources: tuple[u64, ...],
) -> None:
    """Add activation(gate) * up, by matrices that lie alike; `up` is its bias and its scales of parts."""
    gate = matrices[0]
    at_once, name = rows_at_once(run, product)
    grid = (-(-gate.outs // WARPS), -(-run.rows // at_once), product.parts)
    arguments = (*product_arguments(run, out, gate, product), *up, i32(KINDS[activation]))
    planes = (*planes_of(gate), *planes_of(matrices[1]))
    run.launch(gate.source, f"multiply_{name}_gated", grid, *arguments, *planes, *sources, threads=32 * WARPS)


def _join(ops: Sequence[Op], index: int, run: Run) -> int:
    """Multiply the same rows by up to three matrices, as by query, key and value."""
    joined = list(_alike(ops[index : index + _MOST_JOINED], run))
    if len(joined) < 2:
        return 0
    x, matrices = run_buffer(run, joined[0].x), [run.weights[op.weight] for op in joined]
    sources = source_of(run, x, matrices[0])
    segments: list[np.generic] = []
    for op, matrix in zip(joined, matrices, strict=True):
        segments += [run.written(op.out), i32(matrix.outs), run.vector(op.bias)]
    missing = _MOST_JOINED - len(joined)
    segments += [u64(0), i32(0), u64(0)] * missing
    planes = [plane for matrix in [*matrices, *matrices[:missing]] for plane in planes_of(matrix)]
    at_once, name = rows_at_once(run, Product())
    outs = sum(matrix.outs for matrix in matrices)
    run.launch(
        matrices[0].source,
        f"multiply_{name}_joined",
        (-(-outs // WARPS), -(-run.rows // at_once), 1),
        *(i32(run.rows), i32(matrices[0].columns), *segments, *planes, *sources),
        threads=32 * WARPS,
    )
    return len(joined)


def _alike(ops: Sequence[Op], run: Run) -> Iterator[Linear]:
    """Give the first ops that multiply the same rows by the same kernels and leave those rows as they are."""
    first, written = ops[0], set[str]()
    for op in ops:
        if not isinstance(first, Linear) or not isinstance(op, Linear) or not _are_alike(first, op, run):
            return
        written.add(op.out)
        if first.x in written:
            return
        yield op


def _are_alike(first: Linear, second: Linear, run: Run) -> bool:
    one, other = run.weights[first.weight], run.weights[second.weight]
    plain = all(op.scale == op.bias_scale == 1.0 for op in (first, second))
    same_kernels = (one.source, one.columns) == (other.source, other.columns)
    return plain and first.x == second.x and same_kernels and not (one.is_vector or other.is_vector)


def is_read(ops: Sequence[Op], buffer: str) -> bool:
    """Say whether any of these ops may read what a buffer holds before them."""
    for op in ops:
        named = [item.name for item in fields(op) if getattr(op, item.name) == buffer]
        if named and named != ["out"]:
            return True
        if named:
            return False
    return False
