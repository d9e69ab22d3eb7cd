"""A GPU, by CuPy: its runtime, its loader of modules, its graphs and its cuBLAS."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version

import cupy
import numpy as np
from cupy.cuda import runtime
from cupy.cuda.function import Function, Module
from numpy.typing import NDArray
from rase_core.errors import DeviceLost, DeviceOutOfMemory
from rase_core.sizes import size_text

from rase_models.backends.cuda.compiler import (
    CompiledKernels,
    architecture_for,
    check_compiler,
    supported_capabilities,
)
from rase_models.backends.cuda.device import Command, Gemm, Launch, Memory, Replay, Source
from rase_models.backends.cuda.faults import (
    check_capability,
    check_ordinal,
    library_needed,
    run_faults,
    start_faults,
)

_LEAST_CAPABILITY = 75  # Turing: int8 dot products and the kernels' tests begin there
_HALF, _FLOAT = 2, 0  # of cudaDataType
_COMPUTE_FLOAT = 68
_DEFAULT_ALGORITHM = -1
_TRANSPOSED, _AS_IT_IS = 1, 0


class CupyDevice:
    """The GPU with a number; raises BackendUnavailable, with what to do, if it cannot be used.

    Which device is current, and which stream, is left as it was for the thread of whoever calls.
    """

    is_stand_in = False

    def __init__(self, ordinal: int = 0) -> None:
        self._name = f"cuda:{ordinal}" if ordinal else "cuda"
        with start_faults(self._name):
            check_ordinal(ordinal, runtime.getDeviceCount())
            self._device = cupy.cuda.Device(ordinal)
            with self._device:
                self._properties = runtime.getDeviceProperties(ordinal)
                self._stream = cupy.cuda.Stream(non_blocking=True)
            capability = int(self._device.compute_capability)
        check_capability(capability, _LEAST_CAPABILITY, self._name)
        version = check_compiler()
        architecture = architecture_for(capability, supported_capabilities(), self._name)
        self._compiled = CompiledKernels(architecture, version)
        with library_needed("cuBLAS"):
            self._cublas = import_module("cupy_backends.cuda.libs.cublas")
        self._kernels: dict[tuple[Source, str], Function] = {}
        self._modules: dict[Source, Module] = {}

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Compute on this device, and raise what CUDA raises meanwhile as BackendFailure of its name."""
        with run_faults(self._name), self._device:
            yield

    def describe(self) -> str:
        """Name the GPU, its memory, and the versions of CuPy and of the driver."""
        name = self._properties["name"].decode()
        free, total = self._memory()
        driver = runtime.driverGetVersion()
        versions = f"cupy {version_of_cupy()}, driver for CUDA {driver // 1000}.{driver % 1000 // 10}"
        return f"{name}, {free / 1e9:.1f} of {total / 1e9:.1f} GB free, {versions}"

    def free_nbytes(self) -> int:
        """Return how much memory could be allocated."""
        return self._memory()[0]

    def _memory(self) -> tuple[int, int]:
        with self._faults():
            free, total = runtime.memGetInfo()
        return int(free), int(total)

    def allocate(self, nbytes: int) -> Memory:
        """Return memory that is all zero."""
        free = self.free_nbytes()
        if nbytes > free:
            asked = f"{size_text(nbytes)} are asked for, {size_text(free)} are free"
            raise DeviceOutOfMemory(self._name, asked)
        with self._faults():
            owner = cupy.cuda.memory.Memory(max(nbytes, 1))
            runtime.memsetAsync(owner.ptr, 0, max(nbytes, 1), self._stream.ptr)
        return Memory(owner.ptr, nbytes, owner)

    def release(self, memory: Memory) -> None:
        """Wait for what was asked for; the memory goes back with its last owner."""
        with suppress(DeviceLost), self._faults():
            self._stream.synchronize()

    def write(self, address: int, values: NDArray[np.generic]) -> None:
        """Copy a contiguous array to the device."""
        with self._faults():
            kind = runtime.memcpyHostToDevice
            runtime.memcpyAsync(address, values.ctypes.data, values.nbytes, kind, self._stream.ptr)
            self._stream.synchronize()

    def read(self, address: int, out: NDArray[np.generic]) -> None:
        """Copy from the device into a contiguous array."""
        with self._faults():
            kind = runtime.memcpyDeviceToHost
            runtime.memcpyAsync(out.ctypes.data, address, out.nbytes, kind, self._stream.ptr)
            self._stream.synchronize()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy from one place of the device to another."""
        with self._faults():
            kind = runtime.memcpyDeviceToDevice
            runtime.memcpyAsync(target, source, nbytes, kind, self._stream.ptr)

    def prepare(self, sources: Iterable[Source]) -> None:
        """Compile and load files of kernels."""
        with self._faults():
            for source in sources:
                self._module(source)

    def execute(self, commands: Sequence[Command]) -> None:
        """Execute commands one after another."""
        with self._faults(), self._stream:
            for command in commands:
                if isinstance(command, Gemm):
                    self._multiply(command)
                else:
                    self._launch(command)

    def record(self, launches: Sequence[Launch]) -> Replay:
        """Make a CUDA graph of launches."""
        with self._faults(), self._stream:
            for launch in launches:
                self._kernel(launch)  # nothing may be loaded while a graph is recorded
            self._stream.begin_capture()
            try:
                for launch in launches:
                    self._launch(launch)
            finally:
                graph = self._stream.end_capture()

        def replay() -> None:
            with self._faults():
                graph.launch(self._stream)

        return replay

    def _launch(self, launch: Launch) -> None:
        kernel = self._kernel(launch)
        kernel(launch.grid, (launch.threads, 1, 1), launch.arguments, shared_mem=launch.shared)

    def _kernel(self, launch: Launch) -> Function:
        key = launch.source, launch.kernel
        if key not in self._kernels:
            self._kernels[key] = self._module(launch.source).get_function(launch.kernel)
        return self._kernels[key]

    def _module(self, source: Source) -> Module:
        if source not in self._modules:
            module = Module()
            module.load(self._compiled.code(source))
            self._modules[source] = module
        return self._modules[source]

    def _multiply(self, gemm: Gemm) -> None:
        """Call cuBLAS, which counts columns first: out.T = weight @ x.T."""
        one, zero = np.array(1, np.float32), np.array(0, np.float32)
        kind = _HALF if gemm.is_half else _FLOAT
        with library_needed("cuBLAS"):
            handle = cupy.cuda.device.get_cublas_handle()
        self._cublas.setStream(handle, self._stream.ptr)
        self._cublas.gemmEx(
            *(handle, _TRANSPOSED, _AS_IT_IS, gemm.outs, gemm.rows, gemm.columns, one.ctypes.data),
            *(gemm.weight, kind, gemm.columns, gemm.x, kind, gemm.columns, zero.ctypes.data),
            *(gemm.out, _FLOAT, gemm.stride, _COMPUTE_FLOAT, _DEFAULT_ALGORITHM),
        )


def version_of_cupy() -> str:
    """Return CuPy's version, under whichever name it is installed."""
    return str(getattr(cupy, "__version__", None) or version("cupy"))
