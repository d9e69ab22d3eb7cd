"""Matrices on the device: floats, or quantised in MLX's affine form or in the blocks of the file."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from rase_models.backends.metal.affine import AFFINE, GROUP, AffineForm, pack, packed_nbytes
from rase_models.backends.metal.block_kernels import block_kernels
from rase_models.backends.metal.block_matrix import BlockMatrix
from rase_models.backends.metal.device import Device
from rase_models.backends.metal.kernel_maker import KernelMaker
from rase_models.backends.metal.narrowing import Narrowing
from rase_models.backends.metal.stacks import gathered_floats, rows_between
from rase_models.gguf import TensorInfo, Weight
from rase_models.gguf.quants import BLOCK_DTYPES, dequantize
from rase_models.gguf.types import TYPE_LAYOUTS, GgmlType
from rase_models.program import TensorSlice

_LARGEST = 65504  # of a float16
_BLOCKS_AT_ONCE = 1 << 16  # of the file, so that what is taken apart stays small beside the model


@dataclass(frozen=True, slots=True)
class FloatMatrix:
    """A matrix [..., out, in], or a vector, of floats."""

    values: mx.array
    narrowing: Narrowing

    def times(self, x: mx.array) -> mx.array:
        """Return x @ matrix.T, float32 [rows, out]."""
        return self.narrowing.product(x, lambda rows: rows @ mx.swapaxes(self.values, -1, -2))

    def gathered(self, x: mx.array, experts: mx.array, *, is_sorted: bool = False) -> mx.array:
        """Return the products of x [rows, 1 or used, 1, in] with each row's experts [rows, used]."""
        return gathered_floats(x, self.values, experts, self.narrowing, is_sorted=is_sorted)

    def rows(self, indices: mx.array) -> mx.array:
        """Return rows as float32 [indices, in]."""
        return self.values[indices].astype(mx.float32)

    def floats(self) -> mx.array:
        """Return everything as float32."""
        return self.values.astype(mx.float32)

    def part(self, first: int, last: int) -> "FloatMatrix":
        """Return rows `first` to last - 1 of a matrix or of each of a stack, or such elements of a vector."""
        return replace(self, values=rows_between(self.values, first, last))

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """What is in memory."""
        return (self.values,)


@dataclass(frozen=True, slots=True)
class AffineMatrix:
    """A matrix [..., out, in] of codes, uint32 [..., out, in * bits / 32], with a scale and a bias for 32."""

    codes: mx.array
    scales: mx.array
    biases: mx.array
    bits: int
    narrowing: Narrowing

    def times(self, x: mx.array) -> mx.array:
        """Return x @ matrix.T, float32 [rows, out]."""
        multiply = partial(self._call, mx.quantized_matmul)
        return self.narrowing.product(x, multiply)

    def gathered(self, x: mx.array, experts: mx.array, *, is_sorted: bool = False) -> mx.array:
        """Return the products of x [rows, 1 or used, 1, in] with each row's experts [rows, used]."""
        multiply = partial(self._call, mx.gather_qmm, rhs_indices=experts, sorted_indices=is_sorted)
        return self.narrowing.product(x, multiply)

    def _call(self, function: Callable[..., mx.array], x: mx.array, **options: object) -> mx.array:
        form = {"transpose": True, "group_size": GROUP, "bits": self.bits}
        return function(x, *self.arrays, **form, **options)

    def rows(self, indices: mx.array) -> mx.array:
        """Return rows as float32 [indices, in]."""
        return self._dequantized(*(array[indices] for array in self.arrays))

    def floats(self) -> mx.array:
        """Return everything as float32."""
        return self._dequantized(*self.arrays)

    def part(self, first: int, last: int) -> "AffineMatrix":
        """Return rows `first` to last - 1 of the matrix or of each of a stack."""
        codes, scales, biases = (rows_between(array, first, last) for array in self.arrays)
        return replace(self, codes=codes, scales=scales, biases=biases)

    @property
    def arrays(self) -> tuple[mx.array, mx.array, mx.array]:
        """What is in memory."""
        return self.codes, self.scales, self.biases

    def _dequantized(self, codes: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        return mx.dequantize(codes, scales, biases, group_size=GROUP, bits=self.bits).astype(mx.float32)


Matrix = FloatMatrix | AffineMatrix | BlockMatrix


def matrix_of(weight: Weight, device: Device) -> Matrix:
    """Put a tensor on the device in the form that it keeps the type in."""
    info = weight.info
    if _is_matrix(info) and device.make_kernel is not None and device.reads_blocks(info.type):
        return _blocks(weight, device, device.make_kernel)
    if _is_matrix(info) and info.type in AFFINE:
        return _affine(weight, AFFINE[info.type], device)
    dtype = _float_dtype(info, device)
    return FloatMatrix(_evaluated(_floats(weight).astype(dtype)), device.narrowing(dtype))


def _floats(weight: Weight) -> mx.array:
    """Return a tensor as floats: those of a file as they are, which makes the fewest copies."""
    info, data = weight.info, np.ascontiguousarray(weight.data)
    if info.type is GgmlType.F16:
        return mx.array(data.view(np.float16).reshape(info.shape))
    if info.type is GgmlType.BF16:
        return mx.array(data.view(np.uint16).reshape(info.shape)).view(mx.bfloat16)
    return mx.array(dequantize(info.type, data, info.shape))


def _is_matrix(info: TensorInfo) -> bool:
    return len(info.shape) > 1


def _float_dtype(info: TensorInfo, device: Device) -> mx.Dtype:
    """Return float32 for what is no matrix, and for what a file has so: routers, which decide."""
    if not _is_matrix(info) or info.type is GgmlType.F32 or device.dtype == mx.float32:
        return mx.float32
    return mx.bfloat16 if info.type is GgmlType.BF16 else device.dtype


def matrix_nbytes(info: TensorInfo, device: Device) -> int:
    """Return the bytes that a tensor takes on the device."""
    count = math.prod(info.shape)
    if _is_matrix(info) and device.reads_blocks(info.type):
        columns, nbytes = TYPE_LAYOUTS[info.type]
        return count // columns * nbytes
    if _is_matrix(info) and info.type in AFFINE:
        return packed_nbytes(info.type, count, device.dtype.size)
    return count * _float_dtype(info, device).size


def _blocks(weight: Weight, device: Device, make: KernelMaker) -> BlockMatrix:
    *outer, columns = weight.info.shape
    blocks = mx.array(np.ascontiguousarray(weight.data).view(np.uint8).reshape(*outer, -1))
    return BlockMatrix(
        _evaluated(blocks), columns, device.narrowing(device.dtype), block_kernels(weight.info.type, make)
    )


def _affine(weight: Weight, form: AffineForm, device: Device) -> AffineMatrix:
    shape, type_ = weight.info.shape, weight.info.type
    blocks = np.ascontiguousarray(weight.data).reshape(-1).view(BLOCK_DTYPES[type_])
    pieces = [_packed(form, piece) for piece in _pieces(blocks)]
    codes, scales, biases = (
        np.concatenate(arrays).reshape(*shape[:-1], -1) for arrays in zip(*pieces, strict=True)
    )
    dtype = _scale_dtype(scales, biases, device)
    return AffineMatrix(
        _evaluated(mx.array(codes)),
        _evaluated(mx.array(scales).astype(dtype)),
        _evaluated(mx.array(biases).astype(dtype)),
        form.bits,
        device.narrowing(dtype),
    )


def _packed(form: AffineForm, blocks: NDArray[np.void]) -> tuple[NDArray[np.generic], ...]:
    """Return the packed codes, the scales and the biases of blocks, flat."""
    parts = form.of(blocks)
    return tuple(array.reshape(-1) for array in (pack(parts.codes, form.bits), parts.scales, parts.biases))


def _scale_dtype(scales: NDArray[np.generic], biases: NDArray[np.generic], device: Device) -> mx.Dtype:
    """Return the device's type, but bfloat16 for what a float16 cannot hold."""
    if device.dtype != mx.float16:
        return device.dtype
    largest = max(float(np.abs(array).max(initial=0)) for array in (scales, biases))
    return mx.float16 if largest <= _LARGEST else mx.bfloat16


def _pieces(
    blocks: np.ndarray[tuple[int], np.dtype[np.void]],
) -> Iterator[np.ndarray[tuple[int], np.dtype[np.void]]]:
    for first in range(0, len(blocks), _BLOCKS_AT_ONCE):
        yield blocks[first : first + _BLOCKS_AT_ONCE]


def _evaluated(array: mx.array) -> mx.array:
    mx.eval(array)
    return array


def sliced(matrix: Matrix, part: TensorSlice) -> Matrix:
    """Return a part of a tensor."""
    return matrix.part(part.first, part.last)
