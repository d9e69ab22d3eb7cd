"""What MLX computes on here: an Apple GPU, or this machine's CPU, which stands in for it in tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import mlx.core as mx
from rase_core.errors import BackendFailure, DeviceOutOfMemory

_MEMORY_WORDS = ("allocate", "Insufficient Memory", "OutOfMemory")


def is_gpu() -> bool:
    """Say whether there is an Apple GPU."""
    return bool(mx.metal.is_available())


def describe() -> str:
    """Name the processor that computes."""
    name = mx.device_info().get("device_name", "an unknown device")
    kind = "Metal" if is_gpu() else "MLX on the CPU, for tests"
    return f"{name} ({kind}), mlx {version('mlx')}"


def dtype() -> mx.Dtype:
    """Return what matrices are multiplied in: float32 on the CPU, whose float16 is neither exact nor fast."""
    return mx.bfloat16 if is_gpu() else mx.float32


def memory_limit() -> int | None:
    """Return the bytes that the GPU should not take more of; None where MLX does not say."""
    limit = mx.device_info().get("max_recommended_working_set_size")
    return None if limit is None else int(limit)


def check_room(nbytes: int) -> None:
    """Raise DeviceOutOfMemory if so many bytes are more than the GPU should take."""
    limit = memory_limit()
    if limit is not None and nbytes > limit:
        raise DeviceOutOfMemory(
            "metal", f"{nbytes / 1e6:,.0f} MB are needed, {limit / 1e6:,.0f} MB may be used"
        )


@contextmanager
def faults() -> Iterator[None]:
    """Raise DeviceOutOfMemory or BackendFailure for what MLX raises while it computes."""
    try:
        yield
    except RuntimeError as error:
        if any(word in str(error) for word in _MEMORY_WORDS):
            raise DeviceOutOfMemory("metal", str(error)) from error
        raise BackendFailure(f"the metal backend failed: {error}") from error
