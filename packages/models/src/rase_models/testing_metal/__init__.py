"""The Metal backend's own kernels, run on the CPU, for tests; it needs MLX and a C++ compiler."""

from rase_models.testing_cuda import EmulatedFault, has_compiler
from rase_models.testing_metal.kernel import Emulation, emulated

__all__ = ["EmulatedFault", "Emulation", "emulated", "has_compiler"]
