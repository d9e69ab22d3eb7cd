"""The rows of a run as groups of sequences with equally many rows, which can be computed together."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import BLOCK_TOKENS, Rows

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences that have `count` rows each in a run.

    Attributes:
        rows: indices of the run's rows, [sequences, count].
        sequences: their numbers, [sequences].
        positions: [sequences, count].
    """

    rows: Ints
    sequences: Ints
    positions: Ints

    @property
    def count(self) -> int:
        """How many rows each of its sequences has."""
        return int(self.rows.shape[1])


@dataclass(frozen=True, slots=True)
class Window:
    """The cached positions that a group's rows may see.

    Attributes:
        blocks: of the cache, [sequences, blocks].
        begin: the position at which the first of them begins, [sequences].
        first, last: each row sees the positions from first to last, its own: [sequences, rows of each].
    """

    blocks: NDArray[np.int32]
    begin: Ints
    first: Ints
    last: Ints


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
    first = group.positions - _seen(group.positions, window, chunked)
    start = first[:, 0] // BLOCK_TOKENS
    columns = start[:, None] + np.arange(int((last - start).max()) + 1)
    blocks = table[group.sequences[:, None], np.minimum(columns, last[:, None])]
    return Window(blocks, start * BLOCK_TOKENS, first, group.positions)


def _seen(positions: Ints, window: int | None, chunked: bool) -> Ints:
    """Return how far back each position sees."""
    if window is None:
        return positions
    return positions % window if chunked else np.minimum(positions, window - 1)
