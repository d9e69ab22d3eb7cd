"""All that the backend asks of a GPU: memory, launches of kernels, products of large matrices, and replays.

There are two: `CupyDevice`, and one for tests that runs the same kernels on the CPU.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on a device; `owner` is the device's own."""

    address: int
    nbytes: int
    owner: object = None


@dataclass(frozen=True, slots=True)
class Source:
    """A file of kernels with the macros that it is compiled with."""

    file: str
    macros: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with its arguments.

    Attributes:
        threads: of a block, a multiple of 32.
        arguments: in the kernel's order and types; addresses are uint64.
        shared: bytes of dynamic shared memory.
    """

    source: Source
    kernel: str
    grid: tuple[int, int, int]
    threads: int
    arguments: tuple[np.generic, ...]
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Gemm:
    """out = x @ weight.T: float32 [rows, outs], by addresses.

    x [rows, columns] and weight [outs, columns] are float16 where `is_half`, else float32. A row of
    out begins `stride` values after the one before.
    """

    out: int
    x: int
    weight: int
    rows: int
    outs: int
    columns: int
    stride: int
    is_half: bool


Command: TypeAlias = Launch | Gemm


class Replay(Protocol):
    """Launches that were recorded."""

    def __call__(self) -> None:
        """Execute them again."""


class Device(Protocol):
    """A GPU. Everything is done in the order of the calls.

    Methods raise DeviceOutOfMemory, DeviceLost when nothing on it can be used any more, and BackendFailure
    for any other fault.

    Attributes:
        is_stand_in: whether it is for tests.
    """

    is_stand_in: bool

    def describe(self) -> str:
        """Name the device and what drives it."""

    def free_nbytes(self) -> int:
        """Return how much memory could be allocated."""

    def allocate(self, nbytes: int) -> Memory:
        """Return memory that is all zero, aligned to 256 bytes."""

    def release(self, memory: Memory) -> None:
        """Give memory back once all that was asked for is done; what a lost device has is gone with it."""

    def write(self, address: int, values: NDArray[np.generic]) -> None:
        """Copy a contiguous array to the device."""

    def read(self, address: int, out: NDArray[np.generic]) -> None:
        """Copy from the device into a contiguous array; waits for everything before."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy from one place of the device to another."""

    def prepare(self, sources: Iterable[Source]) -> None:
        """Make ready to launch kernels of these files."""

    def execute(self, commands: Sequence[Command]) -> None:
        """Execute commands one after another."""

    def record(self, launches: Sequence[Launch]) -> Replay:
        """Make launches that are executed often one thing to execute."""
