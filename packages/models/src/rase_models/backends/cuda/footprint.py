"""What a program takes on a device, by the header of its file: its runs are lowered, and nothing is run."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.cuda.cache import attention_source, layer_caches, state_slots
from rase_models.backends.cuda.device import Command, Launch, Memory, Replay, Source
from rase_models.backends.cuda.inputs import Inputs
from rase_models.backends.cuda.lowering import Run, constants_of, lowered
from rase_models.backends.cuda.matrices import Matrix, matrix_at, matrix_nbytes, multiplied, with_slices
from rase_models.backends.cuda.workspace import SMALL, Workspace
from rase_models.gguf import TensorInfo
from rase_models.kv_type import KvType
from rase_models.program import Program

_MOST_PLANES = 4


class Counter:
    """A device that counts what is allocated, and has no memory.

    Attributes:
        nbytes: that were asked for.
    """

    is_stand_in = True

    def __init__(self) -> None:
        self.nbytes = 0

    def describe(self) -> str:
        """Say what it is for."""
        return "a count of bytes"

    def free_nbytes(self) -> int:
        """Return that there is nothing to use."""
        return 0

    def allocate(self, nbytes: int) -> Memory:
        """Count bytes."""
        self.nbytes += nbytes
        return Memory(0, nbytes)

    def release(self, memory: Memory) -> None:
        """Do nothing: what was needed once counts."""

    def write(self, address: int, values: NDArray[np.generic]) -> None:
        """Do nothing."""

    def read(self, address: int, out: NDArray[np.generic]) -> None:
        """Do nothing."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Do nothing."""

    def prepare(self, sources: Iterable[Source]) -> None:
        """Do nothing."""

    def execute(self, commands: Sequence[Command]) -> None:
        """Do nothing."""

    def record(self, launches: Sequence[Launch]) -> Replay:
        """Record nothing."""
        return lambda: None


def weights_nbytes(program: Program, tensors: Mapping[str, TensorInfo]) -> int:
    """Return the bytes of a program's weights as they are kept."""
    matrices = multiplied(program)
    return sum(matrix_nbytes(tensors[name], name in matrices) for name in program.tensors)


def workspace_nbytes(program: Program, tensors: Mapping[str, TensorInfo], max_rows: int) -> int:
    """Return the bytes that runs of up to so many rows compute in, all of them wanted."""
    device, weights = Counter(), _matrices(program, tensors)
    inputs, workspace = Inputs(device, max_rows, _forget), Workspace(device, max_rows)
    caches = layer_caches(device, program, KvType.F16, _forget)
    states = state_slots(device, program, _forget)
    constants = dict.fromkeys(constants_of(program), 0)
    attention = attention_source(KvType.F16)
    for rows in (SMALL, max_rows):
        places = (program, weights, caches, states, inputs, workspace, constants, attention)
        lowered(Run(*places, rows, rows, sequences=1))
    return device.nbytes


def _matrices(program: Program, tensors: Mapping[str, TensorInfo]) -> Mapping[str, Matrix]:
    matrices = multiplied(program)
    nowhere = (0,) * _MOST_PLANES
    kept = {name: matrix_at(nowhere, tensors[name], name in matrices) for name in program.tensors}
    return with_slices(kept, program)


def _forget() -> None:
    """Nothing was recorded."""
