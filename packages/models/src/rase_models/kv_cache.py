"""Which KV blocks belong to which sequence: block tables with reference counts, no tensors.

A block holds BLOCK_TOKENS positions and may belong to several sequences that share a prefix. A block is
written only while one sequence alone holds it; a sequence about to write into a shared one takes a copy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rase_models.backends.base import BLOCK_TOKENS


@dataclass(slots=True)
class _Sequence:
    length: int = 0
    blocks: list[int] = field(default_factory=list)


class KvCache:
    """Block tables of sequences, by handle.

    Args:
        reserve: makes room for at least so many blocks, called as the cache grows.
        copy_block: copies the contents of one block to another.
        limit: the most blocks, None for as many as `reserve` gives.

    A handle that is not open is a KeyError, a length beyond a sequence's own a ValueError.
    """

    def __init__(
        self,
        reserve: Callable[[int], None],
        copy_block: Callable[[int, int], None],
        limit: int | None = None,
    ) -> None:
        self._reserve = reserve
        self._copy_block = copy_block
        self._limit = limit
        self._holders: list[int] = []  # of each block, how many sequences hold it
        self._free: list[int] = []
        self._sequences: dict[int, _Sequence] = {}
        self._next_handle = 0

    @property
    def blocks_used(self) -> int:
        """How many blocks belong to at least one sequence."""
        return len(self._holders) - len(self._free)

    def __contains__(self, handle: int) -> bool:
        return handle in self._sequences

    def length(self, handle: int) -> int:
        """Return the number of tokens of a sequence."""
        return self._sequences[handle].length

    def blocks(self, handle: int) -> tuple[int, ...]:
        """Return the block table of a sequence."""
        return tuple(self._sequences[handle].blocks)

    def open(self) -> int:
        """Open an empty sequence and return its handle."""
        return self._add(_Sequence())

    def fork(self, handle: int, length: int) -> int:
        """Open a sequence that shares the blocks of the first `length` tokens of another."""
        parent = self._checked(handle, length)
        blocks = parent.blocks[: _blocks_for(length)]
        for block in blocks:
            self._holders[block] += 1
        return self._add(_Sequence(length, blocks))

    def truncate(self, handle: int, length: int) -> None:
        """Forget the tokens after the first `length`, and let go of blocks that hold none."""
        sequence = self._checked(handle, length)
        sequence.length = length
        self._trim(sequence)

    def release(self, handle: int) -> None:
        """Close a sequence."""
        self.truncate(handle, 0)
        del self._sequences[handle]

    def fits(self, counts: Mapping[int, int]) -> bool:
        """Tell whether the limit allows so many more tokens of every sequence, by handle."""
        return self._limit is None or self.blocks_used + self._needed(counts) <= self._limit

    def extend(self, counts: Mapping[int, int]) -> None:
        """Give every sequence, by handle, blocks for so many more tokens; lengths stay as they are.

        When room cannot be made, or must not, MemoryError comes before anything has changed.
        """
        if not self.fits(counts):
            raise MemoryError(f"more than {self._limit} blocks")
        self._make_room(self._needed(counts))
        for handle, count in counts.items():
            self._extend(self._sequences[handle], count)

    def advance(self, counts: Mapping[int, int]) -> None:
        """Count so many more tokens as written."""
        for handle, count in counts.items():
            self._sequences[handle].length += count

    def withdraw(self, counts: Mapping[int, int]) -> None:
        """Take back the blocks that `extend` gave and nothing was written to."""
        for handle in counts:
            self._trim(self._sequences[handle])

    def _add(self, sequence: _Sequence) -> int:
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._sequences[handle] = sequence
        return handle

    def _checked(self, handle: int, length: int) -> _Sequence:
        sequence = self._sequences[handle]
        if not 0 <= length <= sequence.length:
            raise ValueError(f"length {length} of a sequence of {sequence.length} tokens")
        return sequence

    def _trim(self, sequence: _Sequence) -> None:
        kept = _blocks_for(sequence.length)
        for block in sequence.blocks[kept:]:
            self._let_go(block)
        del sequence.blocks[kept:]

    def _let_go(self, block: int) -> None:
        self._holders[block] -= 1
        if not self._holders[block]:
            self._free.append(block)

    def _needed(self, counts: Mapping[int, int]) -> int:
        return sum(self._blocks_needed(handle, count) for handle, count in counts.items())

    def _blocks_needed(self, handle: int, count: int) -> int:
        sequence = self._sequences[handle]
        more = _blocks_for(sequence.length + count) - len(sequence.blocks)
        return more + (count > 0 and self._writes_shared_block(sequence))

    def _writes_shared_block(self, sequence: _Sequence) -> bool:
        """Tell whether the next token goes into a block that another sequence holds too."""
        return sequence.length % BLOCK_TOKENS > 0 and self._holders[sequence.blocks[-1]] > 1

    def _extend(self, sequence: _Sequence, count: int) -> None:
        if count > 0 and self._writes_shared_block(sequence):
            copy = self._take()
            self._copy_block(sequence.blocks[-1], copy)
            self._let_go(sequence.blocks[-1])
            sequence.blocks[-1] = copy
        while len(sequence.blocks) < _blocks_for(sequence.length + count):
            sequence.blocks.append(self._take())

    def _take(self) -> int:
        block = self._free.pop()
        self._holders[block] = 1
        return block

    def _make_room(self, blocks: int) -> None:
        if blocks <= len(self._free):
            return
        known = len(self._holders)
        ample = known + known // 4
        total = max(known + blocks - len(self._free), min(ample, self._limit or ample))
        self._reserve(total)
        self._holders += [0] * (total - known)
        self._free += reversed(range(known, total))


def _blocks_for(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)
