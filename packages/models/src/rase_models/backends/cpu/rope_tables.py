"""Tables of the cosines and sines that positions turn heads by, grown as positions are used."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.arena import Region
from rase_models.backends.cpu.op_table import OpTable
from rase_models.program import Rope

_FIRST_POSITIONS = 512


def rope_table(rope: Rope, positions: int) -> NDArray[np.float32]:
    """Return float32 [positions, 2, pairs]: cosines and sines, computed in float64, times the magnitude."""
    places = np.arange(positions)
    angles = places.astype(np.float64)[:, None] * np.asarray(rope.frequencies, np.float64)
    magnitude = rope.magnitude * (1 + rope.growth * np.log1p(places // rope.growth_length))
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
        """Make the tables long enough. Nothing may run meanwhile."""
        if not self._rows or positions <= self.positions:
            return
        self.positions = max(_FIRST_POSITIONS, 1 << (positions - 1).bit_length())
        self._memory = [self._place(rope, rows) for rope, rows in self._rows.items()]

    def _place(self, rope: Rope, rows: Iterable[int]) -> Region:
        values = rope_table(rope, self.positions)
        memory = Region(values.nbytes)
        memory.bytes.view(np.float32)[:] = values.reshape(-1)
        for row in rows:
            self._table.set(row, abi.ROPE_TABLE, memory.address)
        return memory
