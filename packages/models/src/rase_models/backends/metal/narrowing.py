"""Activations in half the bits: rounded to what a matrix is kept in, and its products widened again.

float16 has the bits but not the range, which some models leave: rows are divided by their largest value on
their way in, and their products multiplied by it. bfloat16 has the range and less than half the bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import mlx.core as mx

from rase_models.backends.metal.fusing import fused
from rase_models.backends.metal.kernel_maker import LANES, Kernel, KernelMaker

_LEAST = 1e-30  # in place of 0 and of what is next to it
_SIMD_GROUPS = 8
_LEAST_SIZE = 8  # MLX gives kernels smaller arrays in another address space

_NARROW = """
    // A threadgroup narrows one row.
    threadgroup float peaks[8];
    uint thread_index = thread_position_in_threadgroup.x, row = thread_position_in_grid.y, columns = sizes[0];
    const device float* from = x + ulong(row) * columns;
    float peak = 1e-30f;
    for (uint i = thread_index; i < columns; i += 256) peak = max(peak, fabs(from[i]));
    peak = simd_max(peak);
    if (thread_index % 32 == 0) peaks[thread_index / 32] = peak;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = 0; i < 8; ++i) peak = max(peak, peaks[i]);
    for (uint i = thread_index; i < columns; i += 256) out[ulong(row) * columns + i] = half(from[i] / peak);
    if (thread_index == 0) largest[row] = peak;
"""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """How activations are rounded to be multiplied.

    Attributes:
        dtype: float32 leaves them as they are.
        make_kernel: makes the kernel that narrows; without it MLX's operations do.
    """

    dtype: mx.Dtype
    make_kernel: KernelMaker | None = None

    def product(self, x: mx.array, multiply: Callable[[mx.array], mx.array]) -> mx.array:
        """Return what `multiply`, which is linear, makes of x [..., columns], in float32."""
        if self.dtype != mx.float16:
            return multiply(x.astype(self.dtype)).astype(mx.float32)
        if self.make_kernel is None or x.size < _LEAST_SIZE:
            peaks = mx.maximum(mx.abs(x).max(axis=-1, keepdims=True), _LEAST)
            rows = (x / peaks).astype(mx.float16)
        else:
            rows, peaks = _narrowed(_kernel(self.make_kernel), x)
        return _widen(multiply(rows), peaks)


@fused
def _widen(products: mx.array, peaks: mx.array) -> mx.array:
    return products.astype(mx.float32) * peaks


@cache
def _kernel(make: KernelMaker) -> Kernel:
    return make("narrow", ["x", "sizes"], ["out", "largest"], _NARROW, header="")


def _narrowed(narrow: Kernel, x: mx.array) -> tuple[mx.array, mx.array]:
    *outer, columns = x.shape
    count = x.size // columns
    rows, peaks = narrow(
        inputs=[x.reshape(count, columns), mx.array([columns], mx.uint32)],
        grid=(LANES * _SIMD_GROUPS, count, 1),
        threadgroup=(LANES * _SIMD_GROUPS, 1, 1),
        output_shapes=[(count, columns), (count,)],
        output_dtypes=[mx.float16, mx.float32],
    )
    return rows.reshape(x.shape), peaks.reshape(*outer, 1)
