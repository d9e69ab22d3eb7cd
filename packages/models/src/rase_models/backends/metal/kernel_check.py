"""Whether this package's own kernels compute here what they should: tried before they are relied on.

What an Apple compiler or a GPU makes of them is not known beforehand. Where one fails, MLX's own operations
take its place, and a warning says so.
"""

import logging
from collections.abc import Callable
from functools import cache

import mlx.core as mx
import numpy as np

from rase_models.backends.metal.attention_check import attention_error
from rase_models.backends.metal.block_kernels import MOST_ROWS, block_kernels
from rase_models.backends.metal.block_matrix import BlockMatrix
from rase_models.backends.metal.kernel_maker import KernelMaker
from rase_models.backends.metal.narrowing import Narrowing
from rase_models.gguf.quants import dequantize
from rase_models.gguf.types import TYPE_LAYOUTS, GgmlType

_logger = logging.getLogger(__name__)
_OUTS, _BLOCKS = 21, 2  # as many threads as in large products, and a row too few for the last of them
_BITS = 0xBF  # without the bit that makes a float16 large, infinite or no number
_TOLERANCE = 1e-3
_FAULTS = (RuntimeError, ValueError)
_Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


@cache
def decodes(type_: GgmlType, make: KernelMaker) -> bool:
    """Say whether the kernels of a type give what `dequantize` gives, and its products."""
    return _holds(f"{type_.name} in blocks", lambda: _block_error(type_, make))


@cache
def narrows(make: KernelMaker) -> bool:
    """Say whether the kernel that narrows activations does."""
    return _holds("float16 activations", lambda: _narrowing_error(make))


@cache
def attends(key_length: int, value_length: int, dtype: mx.Dtype, make: KernelMaker) -> bool:
    """Say whether the kernels that attend to a paged cache do, for heads of such lengths."""
    what = f"attention with heads of {key_length} and {value_length}"
    return _holds(what, lambda: attention_error(key_length, value_length, dtype, make))


def _holds(what: str, error_of: Callable[[], float]) -> bool:
    try:
        error = error_of()
    except _FAULTS as fault:
        _logger.warning("the kernel for %s cannot be used, MLX's own operations are: %s", what, fault)
        return False
    if not error < _TOLERANCE:
        _logger.warning("the kernel for %s is off by %g, MLX's own operations are used", what, error)
        return False
    return True


def _block_error(type_: GgmlType, make: KernelMaker) -> float:
    """Return the largest error of decoding and multiplying a few blocks, in parts of the largest value."""
    columns, nbytes = (count * _BLOCKS for count in TYPE_LAYOUTS[type_])
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (_OUTS, nbytes), dtype=np.uint8) & np.uint8(_BITS)
    x = rng.standard_normal((MOST_ROWS + 1, columns)).astype(np.float32)  # many rows, then one
    kernels = block_kernels(type_, make)
    matrix = BlockMatrix(mx.array(data), columns, Narrowing(mx.float32), kernels)
    wanted = dequantize(type_, data, (_OUTS, columns))
    return max(_error(matrix.floats(), wanted), _error(matrix.times(mx.array(x)), x @ wanted.T))


def _narrowing_error(make: KernelMaker) -> float:
    x = np.random.default_rng(0).standard_normal((1, 300)).astype(np.float32) * np.float32(1e9)
    return _error(Narrowing(mx.float16, make).product(mx.array(x), lambda rows: rows), x)


def _error(found: mx.array, wanted: _Floats) -> float:
    return float(np.abs(np.array(found) - wanted).max() / np.abs(wanted).max())
