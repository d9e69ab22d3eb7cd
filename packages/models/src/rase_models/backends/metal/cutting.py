"""Parts of matrices."""

import mlx.core as mx


def rows_between(array: mx.array, first: int, last: int) -> mx.array:
    """Return rows `first` to last - 1 of a matrix, or of each of a stack: the latter as a copy.

    The rows of one matrix are adjacent, so that a view does; kernels would copy those of a stack in each run.
    """
    rows = array[..., first:last, :]
    if array.ndim > 2:
        rows = mx.contiguous(rows)
        mx.eval(rows)
    return rows
