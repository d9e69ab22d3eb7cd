"""Builds op tables: rows of words, and the waits that keep an op from reading what is not written yet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.arena import CACHE_LINE, Arena
from rase_models.backends.cpu.kernel_key import KernelKey

Resource = tuple[str, object]
"""Memory that ops read and write: what it is, and whose."""


@dataclass(slots=True)
class Row:
    """An op.

    Attributes:
        words: values of words by their offset; a float is stored as float32.
        reads, writes: what the op touches.
    """

    kernel: KernelKey
    words: Mapping[int, int | float]
    flags: int = 0
    reads: frozenset[Resource] = frozenset()
    writes: frozenset[Resource] = frozenset()
    wait_count: int = 0


@dataclass(slots=True)
class _Pending:
    """What the ops since the last wait have touched, in runs of one or of several rows of each class.

    Attributes:
        many: the classes of ops, by OUTPUT_ROWS, that have several rows.
    """

    many: frozenset[int]
    reads: set[Resource] = field(default_factory=set)
    writes: set[Resource] = field(default_factory=set)

    def has_many(self, row: Row) -> bool:
        """Say whether an op works on several rows in these runs."""
        return row.flags & abi.OUTPUT_ROWS in self.many

    def conflicts(self, row: Row) -> bool:
        """Say whether an op must wait for those before it."""
        return bool(row.reads & self.writes or row.writes & (self.writes | self.reads))

    def add(self, row: Row) -> None:
        """Note an op, unless every thread does it for itself."""
        if self.has_many(row) or not row.flags & abi.REPLICATED:
            self.reads |= row.reads
            self.writes |= row.writes

    def clear(self) -> None:
        """Note a wait."""
        self.reads.clear()
        self.writes.clear()


def place_waits(rows: Sequence[Row]) -> None:
    """Set the flags and counts of waits, so that all hazards between ops are guarded.

    With one row a replicated op leaves its output to its own thread, and nobody else needs to wait for it.
    What it reads counts as read by those who use its output: a thread that is late may read rubbish, but
    then nobody needs it. All rows and the chosen ones may be several or not, each for themselves.
    """
    runs = [_Pending(many) for many in _WITH_MANY]
    since = 0
    for previous, row in pairwise(rows):
        for run in runs:
            run.add(previous)
        since += 1
        previous.wait_count = since
        flag = _wait(previous, [run for run in runs if run.conflicts(row)])
        previous.flags |= flag
        for run in runs:
            if flag == abi.WAIT or (flag == abi.WAIT_IF_MANY and run.has_many(previous)):
                run.clear()
        since = 0 if flag == abi.WAIT else since
    rows[-1].flags |= abi.WAIT
    rows[-1].wait_count = since + 1


_WITH_MANY = (frozenset[int](), frozenset({0}), frozenset({abi.OUTPUT_ROWS}), frozenset({0, abi.OUTPUT_ROWS}))


def _wait(previous: Row, conflicting: Sequence[_Pending]) -> int:
    """Return the flag of the wait after an op, 0 for none."""
    if not conflicting:
        return 0
    return abi.WAIT_IF_MANY if all(run.has_many(previous) for run in conflicting) else abi.WAIT


class OpTable:
    """Rows in memory, each with its claim word."""

    def __init__(self, rows: Sequence[Row], addresses: Mapping[KernelKey, int], arena: Arena) -> None:
        self._rows = arena.take(len(rows) * abi.OP_BYTES)
        claims = arena.take(len(rows) * CACHE_LINE)
        self.address = int(self._rows.ctypes.data)
        self.count = len(rows)
        for index, row in enumerate(rows):
            self.set(index, abi.FUNCTION, addresses[row.kernel])
            self.set(index, abi.FLAGS, row.flags)
            self.set(index, abi.CLAIMS, int(claims.ctypes.data) + index * CACHE_LINE)
            self.set(index, abi.WAIT_COUNT, row.wait_count)
            for offset, value in row.words.items():
                self.set(index, offset, value)

    def set(self, index: int, offset: int, value: int | float) -> None:
        """Set a word of a row."""
        word: NDArray[np.uint8] = self._rows[index * abi.OP_BYTES + offset :][: abi.WORD]
        if isinstance(value, float):
            word.view(np.float32)[0] = value
        else:
            word.view(np.int64)[0] = value


def kernels_of(rows: Iterable[Row]) -> frozenset[KernelKey]:
    """Return the kernels that rows call."""
    return frozenset(row.kernel for row in rows)
