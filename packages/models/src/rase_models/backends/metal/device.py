"""What MLX computes on here: an Apple GPU, or this machine's CPU, which stands in for it in tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import cast

import mlx.core as mx
from rase_core.errors import BackendFailure, DeviceOutOfMemory
from rase_core.sizes import size_text

from rase_models.backends.metal.block_formats import BLOCK_FORMATS
from rase_models.backends.metal.kernel_check import attends, decodes, narrows
from rase_models.backends.metal.kernel_maker import KernelMaker
from rase_models.backends.metal.narrowing import Narrowing
from rase_models.backends.metal.paged_attention import AttentionKernels, attention_kernels
from rase_models.gguf.types import GgmlType

MLX_ERRORS = (RuntimeError, ValueError)
"""What MLX raises while it describes or computes."""
_CACHE_SHARE = 8
_MEMORY_WORDS = ("allocate", "Insufficient Memory", "OutOfMemory")


@dataclass(frozen=True, slots=True)
class Device:
    """What MLX computes on.

    Attributes:
        is_gpu: whether it is an Apple GPU.
        dtype: what matrices are multiplied in, but for those that a file has in another floating type.
        limit: the bytes that it should not take more of; None where nobody says.
        make_kernel: makes kernels; None where there are none, and types that need them take other forms.
    """

    is_gpu: bool
    dtype: mx.Dtype
    limit: int | None = None
    make_kernel: KernelMaker | None = None

    def narrowing(self, dtype: mx.Dtype) -> Narrowing:
        """Return how activations are rounded for a matrix of some type."""
        make = self.make_kernel
        return Narrowing(dtype, make if make is not None and narrows(make) else None)

    def attention(self, key_length: int, value_length: int, kv_dtype: mx.Dtype) -> AttentionKernels | None:
        """Return kernels that attend to such heads in a paged cache of a type, None where there are none."""
        make = self.make_kernel
        if make is None or not attends(key_length, value_length, kv_dtype, make):
            return None
        return attention_kernels(make)

    def reads_blocks(self, type_: GgmlType) -> bool:
        """Say whether its kernels multiply a type as it is in the file."""
        make = self.make_kernel
        return type_ in BLOCK_FORMATS and make is not None and decodes(type_, make)

    def describe(self) -> str:
        """Name the processor that computes."""
        name = mx.device_info().get("device_name", "an unknown device")
        kind = "Metal" if self.is_gpu else "MLX on the CPU, for tests"
        return f"{name} ({kind}), mlx {version('mlx')}"

    def free_nbytes(self) -> int | None:
        """Return how many bytes more it should take, None where nobody says."""
        return None if self.limit is None else max(self.limit - mx.get_active_memory(), 0)

    def check_room(self, what: str, nbytes: int) -> None:
        """Raise DeviceOutOfMemory if so many bytes, beside those in use, are more than it should take."""
        held = mx.get_active_memory()
        if self.limit is not None and held + nbytes > self.limit:
            raise DeviceOutOfMemory(
                "metal",
                f"{what} take {size_text(nbytes)} beside {size_text(held)} in use; of this device's memory "
                f"{size_text(self.limit)} may be used",
            )

    def bound(self) -> None:
        """Tell MLX how much it may take, and how much of that may be buffers that nobody uses any more."""
        if self.is_gpu and self.limit is not None:
            mx.set_memory_limit(self.limit)
            mx.set_cache_limit(self.limit // _CACHE_SHARE)


def has_gpu() -> bool:
    """Say whether there is an Apple GPU."""
    return bool(mx.metal.is_available())


def this_device() -> Device:
    """Return what there is: the GPU, else the CPU, whose float16 is neither exact nor fast."""
    if not has_gpu():
        return Device(is_gpu=False, dtype=mx.float32)
    limit = mx.device_info().get("max_recommended_working_set_size")
    return Device(
        is_gpu=True,
        dtype=mx.float16,
        limit=None if limit is None else int(limit),
        make_kernel=cast(KernelMaker, mx.fast.metal_kernel),
    )


@contextmanager
def faults() -> Iterator[None]:
    """Raise DeviceOutOfMemory or BackendFailure for what MLX raises while it computes."""
    try:
        yield
    except MLX_ERRORS as error:
        if any(word in str(error) for word in _MEMORY_WORDS):
            raise DeviceOutOfMemory("metal", str(error)) from error
        raise BackendFailure(f"the metal backend failed: {error}") from error
