"""A run that is being lowered: where everything is, and the commands so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from rase_models.backends.cuda.cache import LayerCache, Slots
from rase_models.backends.cuda.device import Command, Gemm, Launch, Source
from rase_models.backends.cuda.inputs import Inputs
from rase_models.backends.cuda.matrices import Matrix
from rase_models.backends.cuda.workspace import SMALL, Workspace
from rase_models.program import Attention, MoeFfn, Program, Rotate

THREADS = 256
ELEMENTWISE = Source("elementwise.cu")

u64: TypeAlias = np.uint64
i64: TypeAlias = np.int64
i32: TypeAlias = np.int32
f32: TypeAlias = np.float32
f64: TypeAlias = np.float64

Constant: TypeAlias = tuple[type[np.floating], tuple[float, ...]]
"""Numbers that an op has, and the type that they have on the device."""


def constants_of(program: Program) -> frozenset[Constant]:
    """Return the tuples of numbers that kernels read from the device."""
    found: set[Constant] = set()
    for op in program.ops:
        if isinstance(op, Rotate):
            found.add((f64, op.rope.frequencies))
        if isinstance(op, MoeFfn):
            found.update((f32, values) for values in (op.gate_scales, op.up_scales, op.down_scales))
        if isinstance(op, Attention):
            found.add((f32, op.slopes))
    return frozenset(constant for constant in found if constant[1])


@dataclass(slots=True)
class Run:
    """What ops are lowered with.

    Attributes:
        rows: that ops work on: all, and after SelectOutputs those that are wanted.
        sequences: that the block tables have.
        constants: the addresses of numbers: frequencies of ropes, scales of experts, slopes of heads.
        attention: the kernels for the cache's type.
        codes: buffers that are quantised as they are now, with the addresses of codes and scales.
        halved: the buffer that was brought to float16 last, if it still has those values.
    """

    program: Program
    weights: Mapping[str, Matrix]
    caches: Sequence[LayerCache]
    states: Sequence[Slots]
    inputs: Inputs
    workspace: Workspace
    constants: Mapping[Constant, int]
    attention: Source
    rows: int
    outputs: int
    sequences: int
    commands: list[Command] = field(default_factory=list)
    codes: dict[str, tuple[int, int]] = field(default_factory=dict)
    halved: str | None = None

    @property
    def is_small(self) -> bool:
        """Whether matrices are multiplied as they are kept, and nothing but own kernels is launched."""
        return self.rows <= SMALL

    def width(self, name: str) -> int:
        """Return the width of a buffer."""
        return self.program.buffers[name]

    def count(self, name: str) -> int:
        """Return how many values of a buffer are in use."""
        return self.rows * self.width(name)

    def read(self, name: str) -> np.uint64:
        """Return the address of a buffer."""
        return u64(self.workspace.rows(name, self.rows, 4 * self.width(name)))

    def written(self, name: str) -> np.uint64:
        """Return the address of a buffer that gets new values."""
        self.codes.pop(name, None)
        if self.halved == name:
            self.halved = None
        return self.read(name)

    def scratch(self, name: str, row_nbytes: int) -> np.uint64:
        """Return the address of memory for what an op needs besides buffers."""
        return u64(self.workspace.rows(f"{name} of {row_nbytes} bytes", self.rows, row_nbytes))

    def vector(self, name: str | None) -> np.uint64:
        """Return the address of a weight that is float32, 0 for none."""
        return u64(0) if name is None else u64(self.weights[name].planes[0])

    def constant(self, kind: type[np.floating], values: tuple[float, ...]) -> np.uint64:
        """Return the address of numbers of an op, 0 for none."""
        return u64(self.constants[kind, values] if values else 0)

    def input(self, name: str) -> np.uint64:
        """Return the address of an array that describes the rows."""
        return u64(self.inputs.address(name))

    def launch(
        self,
        source: Source,
        kernel: str,
        grid: tuple[int, int, int],
        *arguments: np.generic,
        threads: int = THREADS,
        shared: int = 0,
    ) -> None:
        """Add a launch."""
        self.commands.append(Launch(source, kernel, grid, threads, arguments, shared))

    def each(self, source: Source, kernel: str, count: int, *arguments: np.generic) -> None:
        """Add a launch of a thread for each of so many, whose number is the last argument."""
        self.launch(source, kernel, (_ceil(count, THREADS), 1, 1), *arguments, i64(count))

    def gemm(self, out: int, x: int, weight: int, outs: int, matrix: Matrix, is_half: bool) -> None:
        """Add a product of the rows with so many rows of a matrix."""
        self.commands.append(Gemm(out, x, weight, self.rows, outs, matrix.columns, matrix.outs, is_half))


def _ceil(count: int, size: int) -> int:
    return -(-count // size)
