"""The CUDA backend: programs run by kernels in CUDA C on an NVIDIA GPU."""

from rase_models.backends.cuda.backend import CudaBackend

__all__ = ["CudaBackend"]
