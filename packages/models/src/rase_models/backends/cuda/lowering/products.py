"""Products of rows with matrices: by own kernels for few rows, by cuBLAS for many."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rase_models.backends.cuda.device import Source
from rase_models.backends.cuda.formats import GROUP
from rase_models.backends.cuda.lowering.run import THREADS, Run, f32, i32, i64, u64
from rase_models.backends.cuda.matrices import Matrix
from rase_models.gguf import GgmlType
from rase_models.program import Embed, HeadLinear, Linear

WARPS = 4
_ROWS_AT_ONCE = 4
_MOST_DEQUANTISED = 1 << 26
"""Values of a matrix that are in float16 at a time."""
_ALIGNED_OUTS = 64
_Q8 = Source("q8.cu")
_GEMM = Source("gemm.cu")


@dataclass(frozen=True, slots=True)
class Product:
    """What a product does besides multiplying, in the terms of product.cuh; addresses, 0 for none."""

    parts: int = 1
    x_parts: int = 1
    choice: int = 0
    bias: int = 0
    part_scales: int = 0
    scale: float = 1.0
    bias_scale: float = 1.0


def embed(op: Embed, run: Run) -> None:
    matrix = run.weights[op.weight]
    numbers = run.input("positions" if op.by_position else "tokens")
    planes = planes_of(matrix)
    out = run.written(op.out)
    run.launch(
        matrix.source,
        "look_up",
        (run.rows, 1, 1),
        out,
        *planes,
        numbers,
        i32(matrix.columns),
        f32(op.scale),
        threads=128,
    )


def linear(op: Linear, run: Run) -> None:
    matrix = run.weights[op.weight]
    product = Product(bias=int(run.vector(op.bias)), scale=op.scale, bias_scale=op.bias_scale)
    if run.is_small or matrix.is_vector:
        multiply(run, run_buffer(run, op.x), int(run.written(op.out)), matrix, product)
    else:
        _multiply_many(run, op, matrix, product)


def head_linear(op: HeadLinear, run: Run) -> None:
    matrix = run.weights[op.weight]
    product = Product(parts=op.heads, x_parts=op.heads)
    multiply(run, run_buffer(run, op.x), int(run.written(op.out)), matrix, product)


@dataclass(frozen=True, slots=True)
class X:
    """What is multiplied: float32 rows at an address, and the name of the buffer, if it is one."""

    address: int
    width: int
    name: str | None = None


def run_buffer(run: Run, name: str) -> X:
    """Return a buffer to multiply."""
    return X(int(run.read(name)), run.width(name), name)


def multiply(run: Run, x: X, out: int, matrix: Matrix, product: Product) -> None:
    """Add a product by an own kernel, with a warp for each row of the matrix."""
    at_once, name = rows_at_once(run, product)
    grid = (-(-matrix.outs // WARPS), -(-run.rows // at_once), product.parts)
    arguments = (
        *product_arguments(run, out, matrix, product),
        *planes_of(matrix),
        *source_of(run, x, matrix),
    )
    run.launch(matrix.source, f"multiply_{name}", grid, *arguments, threads=32 * WARPS)


def rows_at_once(run: Run, product: Product) -> tuple[int, str]:
    """Return how many rows a warp multiplies, and what kernels call that; rows that choose are alone."""
    is_alone = product.choice or run.rows == 1
    return (1, "one") if is_alone else (_ROWS_AT_ONCE, "four")


def product_arguments(run: Run, out: int, matrix: Matrix, product: Product) -> tuple[np.generic, ...]:
    """Return the PRODUCT_PARAMETERS of product.cuh."""
    return (
        u64(out),
        i32(run.rows),
        i32(matrix.outs),
        i32(matrix.columns),
        i32(product.parts),
        i32(product.x_parts),
        i32(matrix.stride),
        u64(product.choice),
        u64(product.bias),
        u64(product.part_scales),
        f32(product.scale),
        f32(product.bias_scale),
    )


def planes_of(matrix: Matrix) -> tuple[u64, ...]:
    """Return the addresses of a matrix."""
    return tuple(u64(plane) for plane in matrix.planes)


def source_of(run: Run, x: X, matrix: Matrix) -> tuple[u64, ...]:
    """Return the addresses of x in the form that a matrix is multiplied with."""
    return _quantised(run, x) if matrix.is_quantised else (u64(x.address),)


def codes_of(run: Run, width: int, name: str) -> tuple[int, int]:
    """Return the addresses where the codes and scales of a buffer go."""
    codes = run.scratch(f"codes of {name}", width)
    return int(codes), int(run.scratch(f"scales of {name}", 16 * (width // GROUP)))


def _quantised(run: Run, x: X) -> tuple[u64, u64]:
    """Return the addresses of the codes and scales of rows, which are quantised unless they are already."""
    held = run.codes.get(x.name) if x.name else None
    if held is None:
        held = codes_of(run, x.width, x.name or f"parts {x.width}")
        groups = run.rows * x.width // GROUP
        grid = (-(-groups // WARPS), 1, 1)
        arguments = (u64(held[0]), u64(held[1]), u64(x.address), i64(groups))
        run.launch(_Q8, "quantise", grid, *arguments, threads=32 * WARPS)
        if x.name:
            run.codes[x.name] = held
    return u64(held[0]), u64(held[1])


def _multiply_many(run: Run, op: Linear, matrix: Matrix, product: Product) -> None:
    """Add a product by cuBLAS: in float16 with rows divided by their maxima, in float32 for such weights."""
    x, largest, is_half = run.read(op.x), u64(0), matrix.type is not GgmlType.F32
    if is_half:
        x, largest = _halves(run, op.x)
    out = run.written(op.out)
    if matrix.type in (GgmlType.F32, GgmlType.F16):
        run.gemm(int(out), int(x), matrix.planes[0], matrix.outs, matrix, is_half)
    else:
        for first, part in _parts(matrix):
            run.gemm(int(out) + 4 * first, int(x), _dequantised(run, part), part.outs, matrix, is_half)
    if is_half or product.bias or product.scale != 1.0:
        count = run.rows * matrix.outs
        arguments = (out, largest, u64(product.bias), i32(matrix.outs), i64(count))
        grid = (-(-count // THREADS), 1, 1)
        run.launch(_GEMM, "finish", grid, *arguments, f32(product.scale), f32(product.bias_scale))


def _halves(run: Run, name: str) -> tuple[u64, u64]:
    """Return the addresses of a buffer in float16 and of its rows' maxima; made once for neighbours."""
    width = run.width(name)
    halves, largest = run.scratch("halves", 2 * width), run.scratch("maxima", 4)
    if run.halved != name:
        run.launch(_GEMM, "to_half", (run.rows, 1, 1), halves, largest, run.read(name), i32(width))
        run.halved = name
    return halves, largest


def _parts(matrix: Matrix) -> Iterator[tuple[int, Matrix]]:
    """Give parts of a matrix that are dequantised at once, with the first row of each."""
    outs = max(_MOST_DEQUANTISED // matrix.columns // _ALIGNED_OUTS, 1) * _ALIGNED_OUTS
    for first in range(0, matrix.outs, outs):
        yield first, matrix.part(first, min(first + outs, matrix.outs))


def _dequantised(run: Run, matrix: Matrix) -> int:
    """Return the address of a float16 copy of a matrix, which the next one takes the place of."""
    values = matrix.outs * matrix.columns
    out = run.workspace.whole("matrix", 2 * values)
    planes = planes_of(matrix)
    if matrix.is_quantised:
        run.each(matrix.source, "dequantise", values // GROUP, u64(out), *planes)
    else:
        run.each(matrix.source, "dequantise", values, u64(out), *planes)
    return out
