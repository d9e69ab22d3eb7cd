"""A device on which the CUDA backend's own kernels run on the CPU, for tests; it needs a C++ compiler."""

from rase_models.testing_cuda.device import EmulatedDevice, EmulatedFault, has_compiler

__all__ = ["EmulatedDevice", "EmulatedFault", "has_compiler"]
