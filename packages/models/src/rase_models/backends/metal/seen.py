"""What the rows of a group see of a cache, on the device: made once in a run, and only what is asked for."""

from functools import cached_property

import mlx.core as mx
import numpy as np

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.metal.fusing import fused
from rase_models.backends.metal.groups import Ints, Window


def _between(columns: mx.array, first: mx.array, last: mx.array) -> mx.array:
    return mx.logical_and(columns >= first, columns <= last)


_is_between = fused(_between)


class Seen:
    """A Window on the device; `positions` below are those of its blocks, from the first block's first."""

    def __init__(self, window: Window) -> None:
        self._window = window

    @cached_property
    def blocks(self) -> mx.array:
        """The blocks, int32 [sequences, blocks]."""
        return mx.array(self._window.blocks)

    @cached_property
    def bounds(self) -> mx.array:
        """The first and the last position of every row, uint32 [sequences * rows of each, 2]."""
        window = self._window
        pairs = np.stack([window.first, window.last], axis=-1) - window.begin[:, None, None]
        return mx.array(pairs.reshape(-1, 2).astype(np.uint32))

    @cached_property
    def visible(self) -> mx.array:
        """Whether a row sees a position, bool [sequences, 1, rows of each, positions]."""
        return _is_between(self._columns, self._rows(self._window.first), self._rows(self._window.last))

    @cached_property
    def distance(self) -> mx.array:
        """How far back each position is, float32 in the same shape; negative after the row."""
        return (self._rows(self._window.last) - self._columns).astype(mx.float32)

    @cached_property
    def is_written(self) -> mx.array:
        """Whether a position is at most that of the last row, bool [sequences, 1, positions, 1]."""
        last = self._rows(self._window.last)[:, :, -1:]
        return mx.swapaxes(self._columns <= last, -1, -2)

    @cached_property
    def _columns(self) -> mx.array:
        """The positions as numbers from 0, int32 [1, 1, 1, positions]."""
        return mx.arange(self._window.blocks.shape[1] * BLOCK_TOKENS).reshape(1, 1, 1, -1)

    def _rows(self, positions: Ints) -> mx.array:
        """Return positions of rows, from their first block's: int32 [sequences, 1, rows of each, 1]."""
        return mx.array((positions - self._window.begin[:, None]).astype(np.int32)[:, None, :, None])
