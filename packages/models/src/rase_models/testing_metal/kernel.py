"""A stand-in for `mx.fast.metal_kernel` whose kernels a C++ compiler compiles."""

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from rase_models.backends.cuda.device import Launch, Memory, Source
from rase_models.testing_cuda import EmulatedDevice, EmulatedFault
from rase_models.testing_cuda.compiler import library_of

Triple = tuple[int, int, int]
_LEAST_DEVICE_SIZE = 8  # MLX puts arrays of fewer elements in the constant address space
_THREADGROUP = re.compile(r"\bthreadgroup (?=\w+ \w+\[)")
Template = Sequence[tuple[str, int | mx.Dtype]]

_C_NAMES = {
    mx.float32: "float",
    mx.float16: "half",
    mx.uint32: "uint",
    mx.uint8: "uint8_t",
    mx.int8: "int8_t",
}
_NUMPY_TYPES = {
    mx.float32: np.float32,
    mx.float16: np.float16,
    mx.uint32: np.uint32,
    mx.uint8: np.uint8,
    mx.int8: np.int8,
}


@dataclass(frozen=True, slots=True)
class Emulation:
    """Makes kernels that run in the memory of this process, where MLX's arrays are copied.

    They are run when they are called, not when what they give is evaluated. Whatever they do wrong raises
    EmulatedFault.

    Args:
        seed: the order of threads, as in EmulatedDevice.
    """

    seed: int = 0

    def __call__(
        self,
        name: str,
        input_names: Sequence[str],
        output_names: Sequence[str],
        source: str,
        header: str = "",
    ) -> Callable[..., list[mx.array]]:
        """Make a kernel, as MLX does of the body of a function."""

        def run(
            *,
            inputs: Sequence[mx.array],
            grid: Triple,
            threadgroup: Triple,
            output_shapes: Sequence[tuple[int, ...]],
            output_dtypes: Sequence[mx.Dtype],
            template: Template = (),
        ) -> list[mx.array]:
            parameters = _parameters(input_names, inputs, output_names, output_dtypes)
            library = library_of(_text(name, parameters, source, header, tuple(template)))
            outputs = list(map(_uninitialised, output_shapes, output_dtypes))
            arrays = [np.array(array) for array in inputs]
            _launch(self.seed, library, name, arrays, outputs, grid, threadgroup)
            return [mx.array(output) for output in outputs]

        return run


emulated = Emulation()
"""Threads in ascending order."""


def _parameters(
    input_names: Sequence[str],
    inputs: Sequence[mx.array],
    output_names: Sequence[str],
    outputs: Sequence[mx.Dtype],
) -> str:
    """Return the parameters of a kernel: arrays, in the address spaces that MLX gives them, and the grid."""
    given = [
        f"const {'constant' if array.size < _LEAST_DEVICE_SIZE else 'device'} {_C_NAMES[array.dtype]}* {name}"
        for name, array in zip(input_names, inputs, strict=True)
    ]
    made = [f"{_C_NAMES[dtype]}* {name}" for name, dtype in zip(output_names, outputs, strict=True)]
    return ", ".join([*given, *made, "uint grid_x"])


@cache
def _shim() -> str:
    return files("rase_models.testing_metal").joinpath("emulation.h").read_text(encoding="utf-8")


def _text(name: str, parameters: str, source: str, header: str, template: Template) -> str:
    """Return a file with one kernel; what a template gives are constants and types."""
    given = (
        f"constexpr int {key} = {value};" if isinstance(value, int) else f"typedef {_C_NAMES[value]} {key};"
        for key, value in template
    )
    kernel = f'extern "C" __global__ void {name}({parameters}) {{'
    guard = "if (thread_position_in_grid.x >= grid_x) return;"
    body = _THREADGROUP.sub("__shared__ ", source)
    return "\n".join((_shim(), *given, header, kernel, guard, body, "}", ""))


def _uninitialised(shape: tuple[int, ...], dtype: mx.Dtype) -> NDArray[np.generic]:
    return np.empty(shape, _NUMPY_TYPES[dtype])


def _launch(
    seed: int,
    library: ctypes.CDLL,
    name: str,
    inputs: Sequence[NDArray[np.generic]],
    outputs: Sequence[NDArray[np.generic]],
    grid: Triple,
    threadgroup: Triple,
) -> None:
    """Run a kernel on copies of arrays, and fill the outputs, which it finds full of what are no numbers."""
    if threadgroup[1:] != (1, 1):
        raise EmulatedFault("a threadgroup of more than one dimension")
    place = EmulatedDevice(seed)
    held = [_copied(place, array) for array in inputs]
    made = [_copied(place, np.full(output.nbytes, 0xFF, np.uint8)) for output in outputs]
    addresses: list[np.generic] = [np.uint64(memory.address) for memory in (*held, *made)]
    arguments = (*addresses, np.uint32(grid[0]))
    blocks = (-(-grid[0] // threadgroup[0]), grid[1], grid[2])
    place.run(library, Launch(Source(name), name, blocks, threadgroup[0], arguments))
    for memory, output in zip(made, outputs, strict=True):
        place.read(memory.address, output)


def _copied(place: EmulatedDevice, array: NDArray[np.generic]) -> Memory:
    memory = place.allocate(array.nbytes)
    place.write(memory.address, np.ascontiguousarray(array))
    return memory
