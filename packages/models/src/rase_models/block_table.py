"""Which blocks hold the keys and values of one sequence, of layers that keep the same positions."""

from collections.abc import Iterable

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.block_pool import BlockPool

GONE = -1
"""In the place of a block that no further token sees."""


def blocks_for(tokens: int) -> int:
    """Return how many blocks so many tokens take."""
    return -(-tokens // BLOCK_TOKENS)


class BlockTable:
    """The blocks of a sequence by position, of which a window keeps only the last.

    A sequence that has a window can go on from where its window is whole: from its end, from the last whole
    block before it, and from the last whole block of the newest prompt (the *mark*), whose blocks are kept
    for that. Blocks that leave the window within a step are kept until it is over, so that it can be undone.

    The length of the sequence is the caller's, and a step begins and ends with `settle`. A block is written
    only while this table alone holds it: one that is about to be written and is shared is copied first.
    """

    def __init__(
        self, pool: BlockPool, window: int | None = None, blocks: Iterable[int] = (), gone: int = 0
    ) -> None:
        self._pool, self._window = pool, window
        self._blocks = [*[GONE] * gone, *blocks]
        self._gone = gone
        self._kept: dict[int, int] = {}  # blocks that have left the window, by index
        self._mark = 0
        self._settled = len(self._blocks)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Every block by index, GONE where there is none any more."""
        return tuple(self._blocks)

    @property
    def mark(self) -> int:
        """The length of the newest prompt in whole blocks, 0 where nothing is kept for it."""
        return self._mark

    @property
    def held(self) -> tuple[int, ...]:
        """The blocks that the table holds."""
        return (*self._blocks[self._gone :], *self._kept.values())

    def _first(self, length: int) -> int:
        """Return the index of the first block that the token after so many sees."""
        return 0 if self._window is None else max(length + 1 - self._window, 0) // BLOCK_TOKENS

    def needed(self, length: int, count: int, most_rows: int) -> int:
        """Return how many blocks at most `count` more tokens take at once, `most_rows` of them in a run."""
        more = blocks_for(length + count) - len(self._blocks)
        if self._window is not None:
            more = min(more, most_blocks(self._window, most_rows))
        return more + (count > 0 and self._writes_shared_block(length))

    def extend(self, length: int, count: int) -> None:
        """Take blocks for `count` more tokens than `length`; there is room for them."""
        if count > 0 and self._writes_shared_block(length):
            self._blocks[-1] = self._pool.own(self._blocks[-1])
        while len(self._blocks) < blocks_for(length + count):
            self._blocks.append(self._pool.take())

    def _writes_shared_block(self, length: int) -> bool:
        return length % BLOCK_TOKENS > 0 and self._pool.is_shared(self._blocks[-1])

    def slide(self, length: int) -> None:
        """Give up what is out of sight of the last whole block and all that comes after `length` tokens."""
        first = self._first(length - length % BLOCK_TOKENS)
        for index in range(self._gone, first):
            block, self._blocks[index] = self._blocks[index], GONE
            self._kept[index] = block
        if first > self._gone:
            self._gone = first
            self._forget(index for index in list(self._kept) if not self._may_be_wanted(index))

    def _may_be_wanted(self, index: int) -> bool:
        return index < self._settled or self._is_marked(index)

    def _is_marked(self, index: int) -> bool:
        return self._first(self._mark) <= index < self._mark // BLOCK_TOKENS

    def _forget(self, indices: Iterable[int]) -> None:
        for index in indices:
            self._pool.let_go(self._kept.pop(index))

    def settle(self, length: int, *, mark: bool = False) -> None:
        """End a step: it is not undone any more. With `mark`, the mark moves to the last whole block."""
        self._settled = blocks_for(length)
        if mark:
            self._mark = length - length % BLOCK_TOKENS
        if self._kept:
            self._forget([index for index in self._kept if not self._is_marked(index)])

    def drop_mark(self) -> None:
        """Give up what is kept for the mark alone; not within a step."""
        self._mark = 0
        self._forget(list(self._kept))

    def covers(self, length: int) -> bool:
        """Tell whether a sequence of `length` tokens, no more than there are, could go on here."""
        wanted = range(self._first(length), min(blocks_for(length), self._gone))
        return all(index in self._kept for index in wanted)

    def share(self, length: int) -> "BlockTable":
        """Return a table that shares the blocks of the first `length` tokens, which this one covers."""
        first = self._first(length)
        blocks = [self._at(index) for index in range(first, blocks_for(length))]
        for block in blocks:
            self._pool.hold(block)
        return BlockTable(self._pool, self._window, blocks, first)

    def _at(self, index: int) -> int:
        return self._blocks[index] if index >= self._gone else self._kept[index]

    def cut(self, length: int) -> None:
        """Go back to `length` tokens, which the table covers, and give up the blocks of those after them."""
        kept = blocks_for(length)
        first = min(self._first(length), self._gone)
        for index in range(first, min(self._gone, kept)):
            self._blocks[index] = self._kept.pop(index)
        for block in self._blocks[max(kept, self._gone) :]:
            self._pool.let_go(block)
        del self._blocks[kept:]
        self._gone = first
        if self._mark > length:
            self._mark = 0
        self._forget([index for index in self._kept if not self._is_marked(index)])
        self._settled = min(self._settled, kept)


def most_blocks(window: int, most_rows: int) -> int:
    """Return how many blocks a run of so many rows and what they see of a window lie in, at most."""
    return (window + most_rows) // BLOCK_TOKENS + 3
