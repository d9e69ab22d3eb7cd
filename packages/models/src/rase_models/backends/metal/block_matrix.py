"""Matrices on the device in the blocks of the file, for types that MLX's own forms do not hold exactly."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from rase_models.backends.metal.block_kernels import MOST_ROWS, BlockKernels
from rase_models.backends.metal.cutting import rows_between

_FEW = 2 * MOST_ROWS
"""Rows that kernels multiply; more are worth a copy of the weights as floats."""
_DECODED_AT_ONCE = 1 << 26  # weights, so that such copies stay small beside the model


@dataclass(frozen=True, slots=True)
class BlockMatrix:
    """A matrix [..., out, in], as uint8 [..., out, bytes of a row].

    Attributes:
        columns: the length of a row in weights.
        dtype: what many rows are multiplied in; few are in float32.
    """

    blocks: mx.array
    columns: int
    dtype: mx.Dtype
    kernels: BlockKernels

    def times(self, x: mx.array) -> mx.array:
        """Return x @ matrix.T, float32 [rows, out]."""
        if x.shape[0] > _FEW:
            x = x.astype(self.dtype)
            return mx.concatenate([(x @ part.T).astype(mx.float32) for part in self._decoded()], axis=-1)
        first = mx.zeros(1, mx.uint32)
        few = [x[None, start : start + MOST_ROWS] for start in range(0, x.shape[0], MOST_ROWS)]
        return mx.concatenate([self._product(rows, first, 1)[0] for rows in few])

    def gathered(self, x: mx.array, experts: mx.array) -> mx.array:
        """Return the products of x [rows, 1 or used, 1, in] with each row's experts [rows, used]."""
        shared = experts.shape[1] // x.shape[1]
        rows = x.reshape(-1, 1, self.columns)
        out = self._product(rows, experts.reshape(-1).astype(mx.uint32), shared)
        return out.reshape(*experts.shape, 1, -1)

    def rows(self, indices: mx.array) -> mx.array:
        """Return rows as float32 [indices, in]."""
        return self.kernels.look_up(self._flat(), indices.astype(mx.uint32), self.columns, mx.float32)

    def floats(self) -> mx.array:
        """Return everything as float32."""
        flat = self._flat()
        everything = self.rows(mx.arange(flat.shape[0], dtype=mx.uint32))
        return everything.reshape(*self.blocks.shape[:-1], self.columns)

    def part(self, first: int, last: int) -> "BlockMatrix":
        """Return rows `first` to last - 1 of the matrix or of each of a stack."""
        return replace(self, blocks=rows_between(self.blocks, first, last))

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """What is in memory."""
        return (self.blocks,)

    def _product(self, x: mx.array, experts: mx.array, shared: int) -> mx.array:
        return self.kernels.product(self._flat(), x, experts, self.blocks.shape[-2], shared)

    def _flat(self) -> mx.array:
        return self.blocks.reshape(-1, self.blocks.shape[-1])

    def _decoded(self) -> Iterator[mx.array]:
        """Give the rows as floats, some at a time."""
        outs = self.blocks.shape[-2]
        some = max(1, _DECODED_AT_ONCE // self.columns)
        for first in range(0, outs, some):
            indices = mx.array(np.arange(first, min(first + some, outs), dtype=np.uint32))
            yield self.kernels.look_up(self._flat(), indices, self.columns, self.dtype)
