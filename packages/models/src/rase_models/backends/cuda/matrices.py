"""Matrices and vectors on the device."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.cuda.device import Device, Memory, Source
from rase_models.backends.cuda.formats import ELEMENTS, FORMATS, Format, float_source
from rase_models.gguf import TYPE_LAYOUTS, GgmlType, TensorInfo, Weight
from rase_models.gguf.quants import BLOCK_DTYPES, dequantize
from rase_models.program import Embed, HeadLinear, Linear, MoeFfn, Op, Program

Array = NDArray[np.generic]

_MATRICES: Mapping[type[Op], tuple[str, ...]] = MappingProxyType(
    {
        Embed: ("weight",),
        Linear: ("weight",),
        HeadLinear: ("weight",),
        MoeFfn: ("router", "gate", "up", "down"),
    }
)
_ALIGNMENT = 256
_BLOCKS_AT_ONCE = 1 << 16  # of the file, so that what is taken apart stays small beside the model


@dataclass(frozen=True, slots=True)
class Matrix:
    """A stack of matrices [count, outs, columns]; a vector is one of one row, of float32.

    Attributes:
        source: the kernels that read it.
        planes: the address of its first row in each plane; floats have one.
        row_nbytes: the bytes of a row in each plane.
        stride: the rows from one matrix to the next.
        type: float or quantised.
    """

    source: Source
    planes: tuple[int, ...]
    row_nbytes: tuple[int, ...]
    outs: int
    columns: int
    stride: int
    type: GgmlType
    is_vector: bool

    @property
    def is_quantised(self) -> bool:
        """Whether it is multiplied with activations in 8 bits."""
        return self.type in FORMATS

    def part(self, first: int, last: int) -> "Matrix":
        """Return rows `first` to last - 1 of each matrix, or such elements of a vector."""
        if self.is_vector:
            return replace(self, planes=(self.planes[0] + 4 * first,), columns=last - first)
        moved = zip(self.planes, self.row_nbytes, strict=True)
        return replace(self, planes=tuple(at + first * nbytes for at, nbytes in moved), outs=last - first)


def matrix_nbytes(info: TensorInfo, is_matrix: bool = True) -> int:
    """Return the bytes that a tensor takes on the device."""
    return sum(_rounded(nbytes * _rows(info)) for nbytes in _row_nbytes(info, is_matrix))


def put_matrix(device: Device, weight: Weight, is_matrix: bool = True) -> tuple[Matrix, Memory]:
    """Put a tensor on the device, as float32 unless rows are multiplied with it. Raises DeviceOutOfMemory."""
    info = weight.info
    sizes = [_rounded(nbytes * _rows(info)) for nbytes in _row_nbytes(info, is_matrix)]
    memory = device.allocate(sum(sizes))
    starts = (memory.address + int(first) for first in np.cumsum([0, *sizes[:-1]]))
    planes = tuple(start if size else 0 for start, size in zip(starts, sizes, strict=True))
    try:
        for places, arrays in _pieces(weight, is_matrix):
            for plane, array, place in zip(planes, arrays, places, strict=True):
                if array.size:
                    device.write(plane + place, array)
    except BaseException:
        device.release(memory)
        raise
    return matrix_at(planes, info, is_matrix), memory


def matrix_at(planes: tuple[int, ...], info: TensorInfo, is_matrix: bool = True) -> Matrix:
    """Return the matrix of a tensor whose planes are at these addresses."""
    type_ = _kept_type(info, is_matrix)
    outs = 1 if _is_vector(info) else info.shape[-2]
    source = FORMATS[type_].source if type_ in FORMATS else float_source(type_)
    row_nbytes = _row_nbytes(info, is_matrix)
    return Matrix(
        source, planes[: len(row_nbytes)], row_nbytes, outs, info.shape[-1], outs, type_, _is_vector(info)
    )


def _pieces(weight: Weight, is_matrix: bool) -> Iterator[tuple[tuple[int, ...], tuple[Array, ...]]]:
    """Give parts of the planes with the place of each."""
    info = weight.info
    if _kept_type(info, is_matrix) is GgmlType.F32:
        yield (0,), (dequantize(info.type, weight.data, info.shape),)
        return
    if info.type in ELEMENTS:
        yield (0,), (np.ascontiguousarray(weight.data),)
        return
    form = FORMATS[info.type]
    blocks = np.ascontiguousarray(weight.data).reshape(-1).view(BLOCK_DTYPES[info.type])
    for first in range(0, len(blocks), _BLOCKS_AT_ONCE):
        before = form.plane_nbytes(first * TYPE_LAYOUTS[info.type][0])
        yield before, form.planes(blocks[first : first + _BLOCKS_AT_ONCE])


def _is_vector(info: TensorInfo) -> bool:
    return len(info.shape) == 1


def _kept_type(info: TensorInfo, is_matrix: bool) -> GgmlType:
    return info.type if is_matrix and not _is_vector(info) else GgmlType.F32


def _rows(info: TensorInfo) -> int:
    return math.prod(info.shape[:-1])


def _row_nbytes(info: TensorInfo, is_matrix: bool) -> tuple[int, ...]:
    type_ = _kept_type(info, is_matrix)
    form: Format | None = FORMATS.get(type_)
    return form.plane_nbytes(info.shape[-1]) if form else (info.shape[-1] * TYPE_LAYOUTS[type_][1],)


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def multiplied(program: Program) -> frozenset[str]:
    """Return the tensors that rows are multiplied with or looked up in; all others are kept as float32."""
    names = (getattr(op, field) for op in program.ops for field in _MATRICES.get(type(op), ()))
    return frozenset(program.slices[name].tensor if name in program.slices else name for name in names)


def with_slices(matrices: Mapping[str, Matrix], program: Program) -> Mapping[str, Matrix]:
    """Return the matrices of a program, and the parts of them that it names."""
    slices = {name: part for name, part in program.slices.items() if part.tensor in matrices}
    parts = {name: matrices[part.tensor].part(part.first, part.last) for name, part in slices.items()}
    return {**matrices, **parts}
