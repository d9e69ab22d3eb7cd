"""What makes kernels of Metal Shading Language: MLX, or in tests a C++ compiler."""

from collections.abc import Callable, Sequence
from typing import Protocol

import mlx.core as mx

LANES = 32
"""Threads of a SIMD group."""

Kernel = Callable[..., list[mx.array]]


class KernelMaker(Protocol):
    """Makes kernels, as `mx.fast.metal_kernel` does."""

    def __call__(
        self, name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str
    ) -> Kernel:
        """Make a kernel of the body of a function, and of what comes before the function."""

    def __hash__(self) -> int:
        """Tell makers apart, whose kernels are kept."""
