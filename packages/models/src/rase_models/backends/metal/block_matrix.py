"""Matrices on the device in the blocks of the file, for types that MLX's own forms do not hold exactly."""

from dataclasses import dataclass, replace

import mlx.core as mx

from rase_models.backends.metal.block_kernels import MOST_ROWS, BlockKernels
from rase_models.backends.metal.narrowing import Narrowing
from rase_models.backends.metal.stacks import gathered_floats, rows_between

_FEW = 2 * MOST_ROWS
"""Rows that kernels multiply; more are worth a copy of the weights as floats."""
_DECODED_AT_ONCE = 1 << 26  # weights, so that such copies stay small beside the model
_STACK = 1 << 28  # weights, likewise, where a copy must be of the whole


@dataclass(frozen=True, slots=True)
class BlockMatrix:
    """A matrix [..., out, in], as uint8 [..., out, bytes of a row].

    Attributes:
        columns: the length of a row in weights.
        narrowing: of many rows; few are multiplied in float32.
    """

    blocks: mx.array
    columns: int
    narrowing: Narrowing
    kernels: BlockKernels

    def times(self, x: mx.array) -> mx.array:
        """Return x @ matrix.T, float32 [rows, out]."""
        if x.shape[0] > _FEW:
            return self.narrowing.product(x, self._many)
        first = mx.array([0], mx.uint32)
        few = [x[None, start : start + MOST_ROWS] for start in range(0, x.shape[0], MOST_ROWS)]
        return mx.concatenate([self._product(rows, first, 1)[0] for rows in few])

    def gathered(self, x: mx.array, experts: mx.array, *, is_sorted: bool = False) -> mx.array:
        """Return the products of x [rows, 1 or used, 1, in] with each row's experts [rows, used]."""
        if experts.size > _FEW * self.blocks.shape[0] and self._weights <= _STACK:
            stack = self._stack(self.narrowing.dtype)
            return gathered_floats(x, stack, experts, self.narrowing, is_sorted=is_sorted)
        shared = experts.shape[1] // x.shape[1]
        rows = x.reshape(-1, 1, self.columns)
        out = self._product(rows, experts.reshape(-1).astype(mx.uint32), shared)
        return out.reshape(*experts.shape, 1, -1)

    def rows(self, indices: mx.array) -> mx.array:
        """Return rows as float32 [indices, in]."""
        return self.kernels.look_up(self._flat(), indices.astype(mx.uint32), self.columns, mx.float32)

    def floats(self) -> mx.array:
        """Return everything as float32."""
        return self._stack(mx.float32)

    def part(self, first: int, last: int) -> "BlockMatrix":
        """Return rows `first` to last - 1 of the matrix or of each of a stack."""
        return replace(self, blocks=rows_between(self.blocks, first, last))

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """What is in memory."""
        return (self.blocks,)

    def _product(self, x: mx.array, experts: mx.array, shared: int) -> mx.array:
        return self.kernels.product(self._flat(), x, experts, self.blocks.shape[-2], shared)

    @property
    def _weights(self) -> int:
        return self._flat().shape[0] * self.columns

    def _flat(self) -> mx.array:
        return self.blocks.reshape(-1, self.blocks.shape[-1])

    def _stack(self, dtype: mx.Dtype) -> mx.array:
        """Return everything as floats."""
        whole = self._between(0, self._flat().shape[0], dtype)
        return whole.reshape(*self.blocks.shape[:-1], self.columns)

    def _many(self, x: mx.array) -> mx.array:
        """Return the products of narrowed rows with the matrix as floats, some of it at a time."""
        outs, some = self.blocks.shape[-2], max(1, _DECODED_AT_ONCE // self.columns)
        pieces = ((first, min(first + some, outs)) for first in range(0, outs, some))
        return mx.concatenate([x @ self._between(*piece, x.dtype).T for piece in pieces], axis=-1)

    def _between(self, first: int, last: int, dtype: mx.Dtype) -> mx.array:
        indices = mx.arange(first, last, dtype=mx.uint32)
        return self.kernels.look_up(self._flat(), indices, self.columns, dtype)
