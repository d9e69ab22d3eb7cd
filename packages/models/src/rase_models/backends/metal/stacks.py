"""Parts of matrices, and products with those of a stack."""

import mlx.core as mx

from rase_models.backends.metal.narrowing import Narrowing


def rows_between(array: mx.array, first: int, last: int) -> mx.array:
    """Return elements `first` to last - 1 of a vector, or such rows of a matrix or of each of a stack.

    Those of a stack are a copy, since kernels would make one in each run; all others are a view. They are
    evaluated, as another thread than this may use them.
    """
    rows = array[first:last] if array.ndim == 1 else array[..., first:last, :]
    if array.ndim > 2:
        rows = mx.contiguous(rows)
    mx.eval(rows)
    return rows


def gathered_floats(
    x: mx.array, stack: mx.array, experts: mx.array, narrowing: Narrowing, *, is_sorted: bool
) -> mx.array:
    """Return the products of x [rows, 1 or used, 1, in] with matrices [out, in] of a stack, float32.

    `experts` [rows, used] says which; they may be in ascending order, which MLX can make use of.
    """
    turned = mx.swapaxes(stack, -1, -2)
    return narrowing.product(
        x, lambda rows: mx.gather_mm(rows, turned, rhs_indices=experts, sorted_indices=is_sorted)
    )
