"""What differs from run to run, in device memory, where a recorded run finds it again."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import Rows
from rase_models.backends.cuda.device import Device, Memory

_NAMES = ("tokens", "positions", "sequences", "outputs", "states", "firsts", "counts")
_SHAPE = 4  # places of int32: sequences and blocks of the tables, and two unused ones


class Inputs:
    """The rows of the next run: int32 arrays, each at its own address; `on_move` hears of a new one.

    Attributes:
        shape: the address of the numbers of sequences and of blocks that tables are made for.
        tables: the address of the block tables.
    """

    def __init__(self, device: Device, max_rows: int, on_move: Callable[[], None]) -> None:
        self._device, self._max_rows, self._on_move = device, max_rows, on_move
        self._memory = device.allocate(4 * (_SHAPE + len(_NAMES) * max_rows))
        self._tables: Memory | None = None
        self.shape = self._memory.address

    def address(self, name: str) -> int:
        """Return the address of one of the arrays."""
        return self.shape + 4 * (_SHAPE + _NAMES.index(name) * self._max_rows)

    @property
    def tables(self) -> int:
        """The address of the block tables."""
        return self._tables.address if self._tables else 0

    def write(self, rows: Rows) -> None:
        """Put a run's rows on the device."""
        host = np.zeros(_SHAPE + len(_NAMES) * self._max_rows, np.int32)
        host[:2] = rows.block_tables.shape[1:]
        for place, values in enumerate(_arrays(rows)):
            start = _SHAPE + place * self._max_rows
            host[start : start + len(values)] = values
        self._reserve_tables(rows.block_tables.nbytes)
        self._device.write(self.shape, host)
        if rows.block_tables.size:
            self._device.write(self.tables, np.ascontiguousarray(rows.block_tables))

    def _reserve_tables(self, nbytes: int) -> None:
        if self._tables is not None and nbytes <= self._tables.nbytes:
            return
        old, self._tables = self._tables, self._device.allocate(max(2 * nbytes, 4096))
        try:
            if old is not None:
                self._device.release(old)
        finally:
            self._on_move()

    def close(self) -> None:
        """Free the memory."""
        self._device.release(self._memory)
        if self._tables is not None:
            self._device.release(self._tables)


def _arrays(rows: Rows) -> tuple[NDArray[np.int32], ...]:
    """Return the arrays in the order of their names."""
    count = rows.block_tables.shape[1]
    numbers, first, length = np.unique(rows.sequences, return_index=True, return_counts=True)
    firsts, counts = np.zeros(count, np.int32), np.zeros(count, np.int32)
    firsts[numbers], counts[numbers] = first, length
    return rows.tokens, rows.positions, rows.sequences, rows.outputs, rows.states, firsts, counts
