"""What CUDA's faults are called here, and what to do about them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from rase_core.errors import BackendFailure, BackendUnavailable, DeviceOutOfMemory

_OUT_OF_MEMORY = 2
_CAUSES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        3: ("CUDA cannot be started", "run nvidia-smi: it says whether the driver works"),
        35: (
            "there is no NVIDIA driver, or it is too old for this version of CUDA",
            "install or update the driver, install rase-models[cuda12] for an older one, or use --device cpu",
        ),
        36: ("another version of the driver is loaded than installed", "restart the machine"),
        46: ("every GPU is in use exclusively", "end the other program, or use --device cpu"),
        100: ("there is no NVIDIA GPU", "check CUDA_VISIBLE_DEVICES, or use --device cpu"),
        101: ("there is no GPU of this number", "nvidia-smi -L lists those that there are"),
        209: ("the GPU is older than what kernels can be compiled for", "use --device cpu"),
        999: ("CUDA fails for an unknown reason", "run nvidia-smi; restarting the machine may help"),
    }
)
"""By the number of the runtime's error: what is wrong, and the remedy."""


@contextmanager
def start_faults() -> Iterator[None]:
    """Raise BackendUnavailable for what CUDA raises while a device is looked for."""
    from cupy.cuda.runtime import CUDARuntimeError

    try:
        yield
    except CUDARuntimeError as error:
        raise unavailable(error.status, str(error)) from error


def unavailable(status: int, words: str) -> BackendUnavailable:
    """Return the error for a status of the runtime."""
    reason, advice = _CAUSES.get(status, ("CUDA cannot be used", "use --device cpu"))
    return BackendUnavailable("cuda", f"{reason} ({words})", advice)


@contextmanager
def run_faults() -> Iterator[None]:
    """Raise DeviceOutOfMemory or BackendFailure for what CUDA raises while it computes."""
    from cupy.cuda.memory import OutOfMemoryError
    from cupy.cuda.runtime import CUDARuntimeError
    from cupy_backends.cuda.api.driver import CUDADriverError

    try:
        yield
    except OutOfMemoryError as error:
        raise DeviceOutOfMemory("cuda", str(error)) from error
    except (CUDARuntimeError, CUDADriverError) as error:
        if error.status == _OUT_OF_MEMORY:
            raise DeviceOutOfMemory("cuda", str(error)) from error
        advice = "run nvidia-smi: if the GPU is lost, restart it or the machine; --device cpu goes on without"
        raise BackendFailure(f"the cuda device failed: {error}", advice) from error
