"""Tables of the cosines and sines that positions turn heads by, grown as positions are used."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.arena import Region
from rase_models.backends.cpu.op_table import OpTable
from rase_models.program import Rope

_FIRST_POSITIONS = 512
_SLICE_POSITIONS = 4096
"""Positions that are computed at once: in float64 all would take several times the memory of their table."""


def rope_table(rope: Rope, positions: int, first: int = 0) -> NDArray[np.float32]:
    """Return float32 [positions, 2, pairs] of positions from `first` on.

    They are cosines and sines, computed in float64, times the magnitude.
    """
    places = np.arange(first, first + positions)
    angles = places.astype(np.float64)[:, None] * np.asarray(rope.frequencies, np.float64)
    magnitude = rope.magnitude * (
        1 + rope.growth * np.log1p((places + rope.growth_first) // rope.growth_length)
    )
    turns = np.stack((np.cos(angles), np.sin(angles)), axis=1) * magnitude[:, None, None]
    return np.asarray(turns, np.float32)


class RopeTables:
    """The tables of an op table's rows; rows with equal ropes share one."""

    def __init__(self, table: OpTable, rows: Sequence[tuple[int, Rope]]) -> None:
        self._table = table
        self._rows: dict[Rope, list[int]] = {}
        for index, rope in rows:
            self._rows.setdefault(rope, []).append(index)
        self._memory: list[Region] = []
        self.positions = 0

    def grow(self, positions: int) -> None:
        """Make the tables long enough. Nothing may run meanwhile.

        When there is no memory for that, MemoryError comes before anything has changed.
        """
        if not self._rows or positions <= self.positions:
            return
        longer = max(_FIRST_POSITIONS, 1 << (positions - 1).bit_length())
        memory = [_filled(rope, longer) for rope in self._rows]
        for region, rows in zip(memory, self._rows.values(), strict=True):
            for row in rows:
                self._table.set(row, abi.ROPE_TABLE, region.address)
        self._memory, self.positions = memory, longer


def _filled(rope: Rope, positions: int) -> Region:
    """Return memory with the table of a rope."""
    pairs = len(rope.frequencies)
    memory = Region(4 * positions * 2 * pairs)
    table = memory.bytes.view(np.float32).reshape(positions, 2, pairs)
    for first in range(0, positions, _SLICE_POSITIONS):
        part = table[first : first + _SLICE_POSITIONS]
        part[:] = rope_table(rope, len(part), first)
    return memory
