"""What CUDA's faults are called here, and what to do about them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from rase_core.errors import BackendFailure, BackendUnavailable, DeviceLost, DeviceOutOfMemory

LAUNCH_FAILURE = 719
_OUT_OF_MEMORY = 2
_LOST = frozenset({4, 46, 100, 101, 201, 214, 220, 226, 700, 702, 709, 710, *range(714, 720), 721, 810, 999})
"""The runtime's and the driver's errors after which every call of the process fails."""

_CUBLAS_NO_MEMORY = 3
_CUBLAS_LOST = frozenset({11, 13, 14})  # a copy, a launch or the library itself has failed
_ADVICE = "run nvidia-smi, which says whether the GPU works; --device cpu goes on without"
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
def start_faults(device: str) -> Iterator[None]:
    """Raise BackendUnavailable for what CUDA raises while a device is looked for."""
    from cupy.cuda.runtime import CUDARuntimeError

    try:
        yield
    except CUDARuntimeError as error:
        raise unavailable(error.status, str(error), device) from error


def unavailable(status: int, words: str, device: str = "cuda") -> BackendUnavailable:
    """Return the error for a status of the runtime."""
    reason, advice = _CAUSES.get(status, ("CUDA cannot be used", "use --device cpu"))
    return BackendUnavailable(device, f"{reason} ({words})", advice)


def check_ordinal(ordinal: int, count: int) -> None:
    """Raise BackendUnavailable for a number that none of so many GPUs has."""
    if not 0 <= ordinal < count:
        numbers = "the only one is cuda:0" if count == 1 else f"they are cuda:0 to cuda:{count - 1}"
        there = "there is 1 GPU" if count == 1 else f"there are {count} GPUs"
        reason = f"{there}, {numbers}" if count else "there is no NVIDIA GPU"
        raise BackendUnavailable(f"cuda:{ordinal}", reason, "nvidia-smi -L lists them")


def check_capability(capability: int, least: int, device: str = "cuda") -> None:
    """Raise BackendUnavailable for a compute capability, times ten, below the least."""
    if capability < least:
        found, needed = capability / 10, least / 10
        reason = f"the GPU's compute capability is {found}, {needed} is needed"
        raise BackendUnavailable(device, reason, "use --device cpu")


def failure(status: int, words: str, device: str = "cuda") -> BackendFailure:
    """Return the error for a status that the runtime or the driver has while it computes."""
    if status == _OUT_OF_MEMORY:
        return DeviceOutOfMemory(device, words)
    if status in _LOST:
        return DeviceLost(device, words)
    return BackendFailure(f"the {device} device failed: {words}", _ADVICE)


def cublas_failure(status: int, words: str, device: str = "cuda") -> BackendFailure:
    """Return the error for a status of cuBLAS."""
    if status == _CUBLAS_NO_MEMORY:
        return DeviceOutOfMemory(device, words)
    if status in _CUBLAS_LOST:
        return DeviceLost(device, words)
    return BackendFailure(f"the {device} device failed in cuBLAS: {words}", _ADVICE)


@contextmanager
def run_faults(device: str) -> Iterator[None]:
    """Raise BackendFailure, in the kind that fits, for what CUDA raises while it computes."""
    from cupy.cuda.memory import OutOfMemoryError
    from cupy.cuda.runtime import CUDARuntimeError
    from cupy_backends.cuda.api.driver import CUDADriverError
    from cupy_backends.cuda.libs.cublas import CUBLASError

    try:
        yield
    except OutOfMemoryError as error:
        raise DeviceOutOfMemory(device, str(error)) from error
    except (CUDARuntimeError, CUDADriverError) as error:
        raise failure(error.status, str(error), device) from error
    except CUBLASError as error:
        raise cublas_failure(error.status, str(error), device) from error


@contextmanager
def library_needed(name: str) -> Iterator[None]:
    """Raise BackendUnavailable for a library of CUDA that CuPy does not find when it first calls it."""
    try:
        yield
    except (RuntimeError, ImportError, OSError) as error:
        if hasattr(error, "status"):  # CuPy's: the library is there, and has failed
            raise
        advice = "pip install 'rase-models[cuda12]' or 'rase-models[cuda13]', as CuPy is for CUDA 12 or 13"
        reason = f"{name} is not installed: {error}"
        raise BackendUnavailable("cuda", reason, advice, is_installed=False) from error
