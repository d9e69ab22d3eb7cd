"""The weights of a model in memory: matrices packed for the kernels, vectors as float32."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import BackendFailure

from rase_models.backends.cpu.arena import Arena
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS
from rase_models.backends.cpu.packing import WeightFormat, packed_format
from rase_models.backends.cpu.repacker import Repacker
from rase_models.backends.cpu.restating import restated
from rase_models.gguf import TensorInfo, Weight
from rase_models.gguf.quants import dequantize
from rase_models.program import (
    Activate,
    AddDots,
    Attention,
    Blend,
    Embed,
    GatedDelta,
    HeadLinear,
    LayerNorm,
    Linear,
    MoeFfn,
    Op,
    Program,
    RmsNorm,
    Scale,
    SelectiveScan,
    ShortConv,
    StateScan,
    TensorSlice,
)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A packed matrix, or one for each expert.

    Attributes:
        address: of the first group of the first matrix.
        expert_nbytes: distance between the matrices of experts.
    """

    address: int
    form: WeightFormat
    rows: int
    columns: int
    expert_nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights of a Program by name."""

    matrices: Mapping[str, Matrix]
    vectors: Mapping[str, NDArray[np.float32]]

    def can_be_gated(self, gate: str, up: str) -> bool:
        """Say whether one kernel can multiply by both matrices, in pairs of groups, and activate."""
        first, second = self.matrices[gate], self.matrices[up]
        return first.form is second.form and first.rows % (2 * GROUP_ROWS) == 0


def matrix_names(ops: Iterable[Op]) -> frozenset[str]:
    """Return the tensors that ops use as matrices."""
    names: set[str] = set()
    for op in ops:
        if isinstance(op, Embed | Linear | HeadLinear):
            names.add(op.weight)
        elif isinstance(op, MoeFfn):
            names |= {op.router, op.gate, op.up, op.down}
    return frozenset(names)


def vector_names(ops: Iterable[Op]) -> frozenset[str]:
    """Return the tensors that ops use as vectors."""
    names: set[str | None] = set()
    for op in ops:
        if isinstance(op, RmsNorm | LayerNorm):
            names.add(op.weight)
        if isinstance(op, Activate | Linear | LayerNorm | ShortConv):
            names.add(op.bias)
        if isinstance(op, ShortConv):
            names.add(op.weight)
        if isinstance(op, Scale | Blend | AddDots):
            names.add(op.weight)
        if isinstance(op, StateScan | SelectiveScan | GatedDelta):
            names.add(op.decay)
        if isinstance(op, StateScan | SelectiveScan):
            names.add(op.skip)
        if isinstance(op, Attention):
            names.add(op.sinks)
        if isinstance(op, MoeFfn):
            names |= {op.router_bias, op.selection_bias, op.gate_bias, op.up_bias, op.down_bias}
    return frozenset(name for name in names if name is not None)


def slice_matrix(matrix: Matrix, part: TensorSlice) -> Matrix:
    """Return some rows of a packed matrix, or of the matrix of each expert, in place.

    Raises:
        BackendFailure: the rows do not begin where a group of rows does, or end within one: what is beyond
            the last row of a matrix must be zeros.
    """
    for edge in sorted({part.first, part.last} - {matrix.rows}):
        if edge % GROUP_ROWS != 0:
            raise BackendFailure(
                f"the CPU backend cannot take {part.tensor} apart at row {edge}",
                f"it needs multiples of {GROUP_ROWS}",
            )
    offset = matrix.form.packed_nbytes(part.first, matrix.columns)
    return replace(matrix, address=matrix.address + offset, rows=part.last - part.first)


@dataclass(frozen=True, slots=True)
class Packing:
    """How a tensor is packed: into one matrix, or a stack of one for each expert.

    Attributes:
        expert_nbytes: the size of one matrix.
    """

    form: WeightFormat
    count: int
    rows: int
    columns: int
    expert_nbytes: int

    @property
    def nbytes(self) -> int:
        """The size of them all."""
        return self.count * self.expert_nbytes

    def at(self, address: int) -> Matrix:
        """Return the matrix, or the stack, that is packed at an address."""
        return Matrix(address, self.form, self.rows, self.columns, self.expert_nbytes)


def packing_of(info: TensorInfo) -> Packing:
    """Return how a tensor is packed; a vector is a matrix of one row. Raises what `packed_format` does."""
    *experts, rows, columns = (1, *info.shape) if len(info.shape) == 1 else info.shape
    count = int(np.prod(experts, dtype=np.int64))
    form = packed_format(info.type, columns)
    return Packing(form, count, rows, columns, form.packed_nbytes(rows, columns))


def whole_tensors(names: frozenset[str], slices: Mapping[str, TensorSlice]) -> frozenset[str]:
    """Return the tensors that names, perhaps of slices, belong to."""
    return frozenset(slices[name].tensor if name in slices else name for name in names)


class WeightLoader:
    """Packs weights as they come, so that there is never more than one copy and one tensor of the file."""

    def __init__(self, repacker: Repacker, arena: Arena) -> None:
        self._repacker, self._arena = repacker, arena

    def load(self, program: Program, weights: Iterator[Weight]) -> Weights:
        """Read the iterator to its end and keep what the ops need."""
        slices = program.slices
        matrices = whole_tensors(matrix_names(program.ops), slices)
        vectors = whole_tensors(vector_names(program.ops), slices)
        packed: dict[str, Matrix] = {}
        kept: dict[str, NDArray[np.float32]] = {}
        for weight in weights:
            name = weight.info.name
            if name in matrices:
                packed[name] = self._pack(weight)
            if name in vectors:
                kept[name] = self._keep(dequantize(weight.info.type, weight.data, weight.info.shape))
        for name, part in slices.items():
            if part.tensor in packed:
                packed[name] = slice_matrix(packed[part.tensor], part)
            if part.tensor in kept:
                kept[name] = self._keep(kept[part.tensor][part.first : part.last])
        return Weights(packed, kept)

    def _keep(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Copy a vector to where whole lines can be read, zeros past its end."""
        padded = -(-values.size // GROUP_ROWS) * GROUP_ROWS
        vector = self._arena.take(4 * padded).view(np.float32)
        vector[: values.size] = values.reshape(-1)
        return vector

    def _pack(self, weight: Weight) -> Matrix:
        packing = packing_of(weight.info)
        target = self._arena.take(packing.nbytes)
        source = np.ascontiguousarray(restated(weight.info.type, weight.data))
        rows, columns = packing.rows, packing.columns
        if rows % GROUP_ROWS == 0:
            self._repacker.repack(packing.form, source, target, packing.count * rows, columns)
        else:
            for expert in range(packing.count):
                part = source[expert * source.size // packing.count :]
                place = target[expert * packing.expert_nbytes :]
                self._repacker.repack(packing.form, part, place, rows, columns)
        return packing.at(int(target.ctypes.data))
