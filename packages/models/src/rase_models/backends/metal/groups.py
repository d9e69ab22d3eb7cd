"""The rows of a run as groups of sequences with equally many rows, which can be computed together."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import BLOCK_TOKENS, Rows

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences that have `rows.shape[1]` rows each in a run.

    Attributes:
        rows: indices of the run's rows, [sequences, rows of each].
        sequences: their numbers, [sequences].
        positions: [sequences, rows of each].
    """

    rows: Ints
    sequences: Ints
    positions: Ints


@dataclass(frozen=True, slots=True)
class Window:
    """The cached positions that a group's rows may see.

    Attributes:
        blocks: of the cache, [sequences, blocks].
        visible: bool [sequences, 1, rows of each, blocks * BLOCK_TOKENS].
        distance: how far back each position is, in the same shape.
    """

    blocks: NDArray[np.int32]
    visible: NDArray[np.bool_]
    distance: Ints


def groups_of(rows: Rows) -> tuple[Group, ...]:
    """Group the sequences of a run by the number of their rows: one row each first."""
    numbers, first, counts = np.unique(rows.sequences, return_index=True, return_counts=True)
    return tuple(_groups(rows, numbers.astype(np.int64), first, counts))


def _groups(rows: Rows, numbers: Ints, first: Ints, counts: Ints) -> Iterator[Group]:
    for count in np.unique(counts):
        chosen = counts == count
        indices = first[chosen][:, None] + np.arange(count)
        yield Group(indices, numbers[chosen], rows.positions[indices].astype(np.int64))


def window_of(group: Group, table: NDArray[np.int32], window: int | None, chunked: bool = False) -> Window:
    """Say what the rows of a group may see, given the block table [sequences, blocks] of the layer's group.

    Every sequence gets as many blocks as the one that sees the most; the surplus repeats its last block and
    is not visible.
    """
    last = group.positions[:, -1] // BLOCK_TOKENS
    seen = _seen(group.positions, window, chunked)
    start = (group.positions - seen)[:, 0] // BLOCK_TOKENS
    columns = start[:, None] + np.arange(int((last - start).max()) + 1)
    blocks = table[group.sequences[:, None], np.minimum(columns, last[:, None])]
    positions = (columns[:, :, None] * BLOCK_TOKENS + np.arange(BLOCK_TOKENS)).reshape(len(columns), -1)
    distance = group.positions[:, :, None] - positions[:, None, :]
    visible = (distance >= 0) & (distance <= seen[:, :, None])
    return Window(blocks, visible[:, None], distance[:, None])


def _seen(positions: Ints, window: int | None, chunked: bool) -> Ints:
    """Return how far back each position sees."""
    if window is None:
        return positions
    return positions % window if chunked else np.minimum(positions, window - 1)
