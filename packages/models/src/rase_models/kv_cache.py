"""Which KV blocks belong to which sequence, for each group of layers: no tensors.

A block holds BLOCK_TOKENS positions and may belong to several sequences that share a prefix.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.block_pool import BlockPool
from rase_models.block_table import BlockTable, blocks_for, most_blocks
from rase_models.program import KvGroup


@dataclass(slots=True)
class _Sequence:
    tables: list[BlockTable]
    length: int = 0
    settled: int = 0


class KvCache:
    """Block tables of sequences, by handle.

    Args:
        groups: the layers; each group has blocks of its own.
        reserve: makes room for at least so many blocks of a group, called as the cache grows.
        copy_block: copies the contents of one block of a group to another.
        limit: the memory of so many blocks of every group, None for as much as `reserve` gives.
        most_rows: the most tokens of a run.

    Tokens are appended in steps: `prepare`, then `extend` and `advance` for the tokens of each run, then
    `settle`, or `withdraw` to undo all of it. A handle that is not open is a KeyError, a length beyond a
    sequence's own, or at which it cannot go on, a ValueError.
    """

    def __init__(
        self,
        groups: Sequence[KvGroup],
        reserve: Callable[[int, int], None],
        copy_block: Callable[[int, int, int], None],
        limit: int | None = None,
        most_rows: int = BLOCK_TOKENS,
    ) -> None:
        self._groups, self._most_rows = tuple(groups), most_rows
        self._block_values = sum(group.values for group in groups)
        self._limit = None if limit is None else limit * self._block_values
        self._pools = [
            BlockPool(partial(reserve, index), partial(copy_block, index), self._most_of(group))
            for index, group in enumerate(groups)
        ]
        self._sequences: dict[int, _Sequence] = {}
        self._next_handle = 0

    def _most_of(self, group: KvGroup) -> int | None:
        return None if self._limit is None else self._limit // group.values

    @property
    def keeps_all(self) -> bool:
        """Whether every layer keeps all positions, so that a sequence can go on from any length."""
        return all(group.window is None for group in self._groups)

    @property
    def blocks_used(self) -> int:
        """How many blocks of every group would take the memory in use."""
        used = self._values_used()
        return -(-used // self._block_values) if used else 0

    def _values_used(self) -> int:
        return sum(pool.used * group.values for pool, group in zip(self._pools, self._groups, strict=True))

    def used(self) -> list[int]:
        """Return how many blocks of each group belong to a sequence."""
        return [pool.used for pool in self._pools]

    def held(self) -> list[set[int]]:
        """Return the blocks of each group that sequences hold."""
        return [
            {block for sequence in self._sequences.values() for block in sequence.tables[group].held}
            for group in range(len(self._pools))
        ]

    def __contains__(self, handle: int) -> bool:
        return handle in self._sequences

    def length(self, handle: int) -> int:
        """Return the number of tokens of a sequence."""
        return self._sequences[handle].length

    def blocks(self, handle: int) -> tuple[tuple[int, ...], ...]:
        """Return the block tables of a sequence, one for each group; -1 for blocks that are gone."""
        return tuple(table.blocks for table in self._sequences[handle].tables)

    def open(self) -> int:
        """Open an empty sequence and return its handle."""
        tables = [
            BlockTable(pool, group.window) for pool, group in zip(self._pools, self._groups, strict=True)
        ]
        return self._add(_Sequence(tables))

    def resume_length(self, handle: int, length: int) -> int:
        """Return the longest length, at most `length`, at which a sequence can go on.

        It is one of `length`, its own, that of its newest prompt in whole blocks, and 0.
        """
        sequence = self._sequences[handle]
        length = min(length, sequence.length)
        if self._covers(sequence, length):
            return length
        marks = {table.mark for table in sequence.tables if table.mark <= length}
        return max((mark for mark in marks if self._covers(sequence, mark)), default=0)

    def fork(self, handle: int, length: int) -> int:
        """Open a sequence that shares the blocks of the first `length` tokens of another."""
        parent = self._checked(handle, length)
        tables = [table.share(length) for table in parent.tables]
        return self._add(_Sequence(tables, length, length))

    def truncate(self, handle: int, length: int) -> None:
        """Forget the tokens after the first `length`, and let go of blocks that hold none."""
        self._cut(self._checked(handle, length), length)

    def release(self, handle: int) -> None:
        """Close a sequence."""
        self.truncate(handle, 0)
        del self._sequences[handle]

    def fits(self, counts: Mapping[int, int]) -> bool:
        """Tell whether the limit allows a step of so many more tokens of every sequence, by handle.

        Where it does not, what is kept for going back to prompts is given up.
        """
        if self._limit is None or self._is_within(counts):
            return True
        for sequence in self._sequences.values():
            for table in sequence.tables:
                table.drop_mark()
        return self._is_within(counts)

    def prepare(self, counts: Mapping[int, int]) -> None:
        """Begin a step: make room for so many more tokens of every sequence, by handle.

        When room cannot be made, or must not, MemoryError comes before anything has changed.
        """
        if self._limit is not None and not self.fits(counts):
            raise MemoryError(f"more than the {self._limit // self._block_values} blocks that are allowed")
        for index, pool in enumerate(self._pools):
            pool.make_room(self._needed(index, counts))

    def extend(self, counts: Mapping[int, int]) -> None:
        """Give every sequence blocks for so many more tokens, of those that a step was prepared for."""
        for handle, count in counts.items():
            sequence = self._sequences[handle]
            for table in sequence.tables:
                table.extend(sequence.length, count)

    def advance(self, counts: Mapping[int, int]) -> None:
        """Count so many more tokens as written."""
        for handle, count in counts.items():
            sequence = self._sequences[handle]
            sequence.length += count
            for table in sequence.tables:
                table.slide(sequence.length)

    def settle(self, counts: Mapping[int, int]) -> None:
        """End a step."""
        for handle, count in counts.items():
            sequence = self._sequences[handle]
            sequence.settled = sequence.length
            for table in sequence.tables:
                table.settle(sequence.length, mark=count > 1)

    def withdraw(self, handles: Iterable[int]) -> None:
        """Undo a step."""
        for handle in handles:
            sequence = self._sequences[handle]
            self._cut(sequence, sequence.settled)

    def _add(self, sequence: _Sequence) -> int:
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._sequences[handle] = sequence
        return handle

    def _checked(self, handle: int, length: int) -> _Sequence:
        sequence = self._sequences[handle]
        if not 0 <= length <= sequence.length:
            raise ValueError(f"length {length} of a sequence of {sequence.length} tokens")
        if not self._covers(sequence, length):
            raise ValueError(f"sequence {handle} cannot go on from {length} tokens")
        return sequence

    def _covers(self, sequence: _Sequence, length: int) -> bool:
        return all(table.covers(length) for table in sequence.tables)

    def _cut(self, sequence: _Sequence, length: int) -> None:
        sequence.length = sequence.settled = length
        for table in sequence.tables:
            table.cut(length)

    def _is_within(self, counts: Mapping[int, int]) -> bool:
        needed = sum(group.values * self._needed(index, counts) for index, group in enumerate(self._groups))
        return self._limit is None or self._values_used() + needed <= self._limit

    def _needed(self, group: int, counts: Mapping[int, int]) -> int:
        return sum(self._needed_by(self._sequences[handle], group, count) for handle, count in counts.items())

    def _needed_by(self, sequence: _Sequence, group: int, count: int) -> int:
        return sequence.tables[group].needed(sequence.length, count, self._most_rows)


def capacity_for(groups: Sequence[KvGroup], tokens: int, most_rows: int) -> int:
    """Return how many blocks of every group have the memory that one sequence of so many tokens may take."""
    values = sum(group.values for group in groups)
    taken = sum(group.values * _most_held(group.window, tokens, most_rows) for group in groups)
    return -(-taken // values) if values else 0


def _most_held(window: int | None, tokens: int, most_rows: int) -> int:
    """Return how many blocks of a group a sequence of so many tokens holds at most, marks apart."""
    whole = blocks_for(tokens)
    return whole if window is None else min(whole, most_blocks(window, most_rows) + most_blocks(window, 0))
