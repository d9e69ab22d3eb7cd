"""A device of the CUDA backend in the memory of this process."""

import ctypes
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import BackendFailure, DeviceOutOfMemory
from rase_core.sizes import size_text

from rase_models.backends.cuda.device import Command, Gemm, Launch, Memory, Replay, Source
from rase_models.backends.cuda.faults import LAUNCH_FAILURE, failure
from rase_models.testing_cuda.compiler import compiler, library

_ALIGNMENT = 256
_GUARD = 1024
_UNTOUCHED = 0xFF  # floats of such bytes are no numbers, so that reading them shows as well
_MOST_ARGUMENTS = 64
_LONGEST_GRID = (2**31 - 1, 65_535, 65_535)
_MOST_THREADS = 1024
_MOST_SHARED = 48 * 1024


class EmulatedFault(BackendFailure):
    """A kernel did what no kernel may."""


def has_compiler() -> bool:
    """Say whether kernels can be compiled here."""
    return compiler() is not None


class EmulatedDevice:
    """Kernels run on the CPU; what they do wrong raises EmulatedFault.

    Args:
        seed: the order of threads, warps and blocks: 0 ascending, 1 descending, others at random.
        nbytes: the memory that there is.
        lost_at: the launch at which it fails, as a GPU does that falls off the bus: from then on every call
            has the error that CUDA has.

    Attributes:
        free: bytes that could be allocated.
        launches: kernels that were run.
    """

    is_stand_in = True

    def __init__(self, seed: int = 0, nbytes: int = 1 << 34, lost_at: int | None = None) -> None:
        self.seed, self.lost_at = seed, lost_at
        self.launches = 0
        self.free = nbytes
        self._held: dict[int, tuple[Memory, NDArray[np.uint8]]] = {}

    def describe(self) -> str:
        """Say what stands in for a GPU."""
        return "CUDA kernels on the CPU, for tests"

    def free_nbytes(self) -> int:
        """Return how much memory could be allocated."""
        return self.free

    @property
    def held_nbytes(self) -> int:
        """How much memory is allocated."""
        return sum(memory.nbytes for memory, _ in self._held.values())

    def allocate(self, nbytes: int) -> Memory:
        """Return memory that is all zero, between two guards."""
        self._check_alive()
        if nbytes > self.free:
            raise DeviceOutOfMemory(
                "cuda", f"{size_text(nbytes)} are asked for, {size_text(self.free)} are free"
            )
        owner = np.full(nbytes + 2 * _GUARD + _ALIGNMENT, _UNTOUCHED, np.uint8)
        address = -(-(owner.ctypes.data + _GUARD) // _ALIGNMENT) * _ALIGNMENT
        first = address - owner.ctypes.data
        owner[first : first + nbytes] = 0
        self.free -= nbytes
        memory = Memory(address, nbytes)
        self._held[address] = memory, owner
        return memory

    def release(self, memory: Memory) -> None:
        """Give memory back; later use of it is a fault."""
        del self._held[memory.address]
        self.free += memory.nbytes

    def write(self, address: int, values: NDArray[np.generic]) -> None:
        """Copy a contiguous array to the device."""
        self._check_alive()
        self._check_range(address, values.nbytes)
        ctypes.memmove(address, values.ctypes.data, values.nbytes)

    def read(self, address: int, out: NDArray[np.generic]) -> None:
        """Copy from the device into a contiguous array."""
        self._check_alive()
        self._check_range(address, out.nbytes)
        ctypes.memmove(out.ctypes.data, address, out.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy from one place of the device to another."""
        self._check_alive()
        self._check_range(target, nbytes)
        self._check_range(source, nbytes)
        ctypes.memmove(target, source, nbytes)

    def prepare(self, sources: Iterable[Source]) -> None:
        """Compile files of kernels."""
        for source in sources:
            library(source)

    def execute(self, commands: Sequence[Command]) -> None:
        """Execute commands one after another."""
        for command in commands:
            if isinstance(command, Gemm):
                self._multiply(command)
            else:
                self._launch(command)

    def record(self, launches: Sequence[Launch]) -> Replay:
        """Keep launches as they are now."""
        kept = tuple(launches)
        if any(isinstance(launch, Gemm) for launch in kept):
            raise EmulatedFault("cuBLAS cannot be recorded")
        return lambda: self.execute(kept)

    def _launch(self, launch: Launch) -> None:
        self.run(library(launch.source), launch)

    def run(self, kernels: ctypes.CDLL, launch: Launch) -> None:
        """Run a kernel of a compiled library."""
        self.launches += 1
        self._check_alive()
        _check_shape(launch)
        self._check_arguments(kernels, launch)
        values = [np.array(argument) for argument in launch.arguments]
        given = (ctypes.c_void_p * max(1, len(values)))(*(value.ctypes.data for value in values))
        shape = (ctypes.c_uint * 4)(*launch.grid, launch.threads)
        call = kernels[f"launch_{launch.kernel}"]
        call.restype = ctypes.c_char_p
        fault = call(given, shape, ctypes.c_size_t(launch.shared), ctypes.c_uint(self.seed))
        if fault is not None:
            raise EmulatedFault(f"{launch.kernel}: {fault.decode()}")
        self._check_guards(launch)

    def _check_alive(self) -> None:
        if self.lost_at is not None and self.launches >= self.lost_at:
            raise failure(LAUNCH_FAILURE, "cudaErrorLaunchFailure: unspecified launch failure")

    def _check_arguments(self, kernels: ctypes.CDLL, launch: Launch) -> None:
        found = (ctypes.c_int * _MOST_ARGUMENTS)()
        count = kernels[f"sizes_{launch.kernel}"](found)
        given = [argument.itemsize for argument in launch.arguments]
        if given != list(found[:count]):
            raise EmulatedFault(f"{launch.kernel}: arguments of {given} bytes for {list(found[:count])}")
        for argument in launch.arguments:
            if argument.dtype == np.uint64 and argument:
                self._check_range(int(argument), 1)

    def _check_range(self, address: int, nbytes: int) -> None:
        for start, (memory, _) in self._held.items():
            if start <= address and address + nbytes <= start + max(memory.nbytes, 1):
                return
        raise EmulatedFault(f"{nbytes} bytes at {address:#x} are not in one allocation")

    def _check_guards(self, launch: Launch) -> None:
        for argument in launch.arguments:
            if argument.dtype == np.uint64 and argument:
                self._check_guard(launch.kernel, int(argument))

    def _check_guard(self, kernel: str, address: int) -> None:
        for start, (memory, owner) in self._held.items():
            if start <= address < start + max(memory.nbytes, 1):
                first = start - owner.ctypes.data
                outside = owner[:first], owner[first + memory.nbytes :]
                if any((guard != _UNTOUCHED).any() for guard in outside):
                    raise EmulatedFault(
                        f"{kernel}: a write outside of an allocation of {memory.nbytes} bytes"
                    )

    def _multiply(self, gemm: Gemm) -> None:
        kind = np.dtype(np.float16 if gemm.is_half else np.float32)
        x = self._view(gemm.x, (gemm.rows, gemm.columns), kind).astype(np.float32)
        weight = self._view(gemm.weight, (gemm.outs, gemm.columns), kind).astype(np.float32)
        for row, values in enumerate(x @ weight.T):
            out = gemm.out + 4 * row * gemm.stride
            self._view(out, (1, gemm.outs), np.dtype(np.float32))[:] = values

    def _view(self, address: int, shape: tuple[int, int], kind: np.dtype[np.generic]) -> NDArray[np.generic]:
        nbytes = shape[0] * shape[1] * kind.itemsize
        self._check_range(address, nbytes)
        memory = (ctypes.c_uint8 * nbytes).from_address(address)
        return np.asarray(np.ctypeslib.as_array(memory).view(kind).reshape(shape))


def _check_shape(launch: Launch) -> None:
    """Refuse what a GPU does not launch, or not without being asked."""
    is_grid = all(1 <= size <= most for size, most in zip(launch.grid, _LONGEST_GRID, strict=True))
    if not is_grid or not 1 <= launch.threads <= _MOST_THREADS or launch.threads % 32:
        raise EmulatedFault(f"{launch.kernel}: a grid of {launch.grid} blocks of {launch.threads} threads")
    if launch.shared > _MOST_SHARED:
        raise EmulatedFault(f"{launch.kernel}: {launch.shared} bytes of shared memory")
