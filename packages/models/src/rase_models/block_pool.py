"""The KV blocks of layers that keep the same positions: which are free, and how many hold the others."""

from collections.abc import Callable


class BlockPool:
    """Blocks by number, with reference counts and without tensors.

    Args:
        reserve: makes room for at least so many blocks, called as the pool grows.
        copy_block: copies the contents of one block to another.
        most: the most blocks that will ever be used, None for no limit; it keeps the pool from growing amply.
    """

    def __init__(
        self,
        reserve: Callable[[int], None],
        copy_block: Callable[[int, int], None],
        most: int | None = None,
    ) -> None:
        self._reserve, self._copy_block, self._most = reserve, copy_block, most
        self._holders: list[int] = []
        self._free: list[int] = []

    @property
    def used(self) -> int:
        """How many blocks are held."""
        return len(self._holders) - len(self._free)

    def make_room(self, blocks: int) -> None:
        """Make sure that so many can be taken; MemoryError before anything has changed."""
        if blocks <= len(self._free):
            return
        known = len(self._holders)
        ample = known + known // 4
        total = max(known + blocks - len(self._free), min(ample, self._most or ample))
        self._reserve(total)
        self._holders += [0] * (total - known)
        self._free += reversed(range(known, total))

    def take(self) -> int:
        """Return a free block, held once; there is room for it."""
        block = self._free.pop()
        self._holders[block] = 1
        return block

    def hold(self, block: int) -> None:
        """Hold a block once more."""
        self._holders[block] += 1

    def let_go(self, block: int) -> None:
        """Hold a block once less; one that nobody holds is free."""
        self._holders[block] -= 1
        if not self._holders[block]:
            self._free.append(block)

    def is_shared(self, block: int) -> bool:
        """Tell whether a block is held more than once."""
        return self._holders[block] > 1

    def own(self, block: int) -> int:
        """Return a copy of a shared block in the place of one hold of it; there is room for it.

        Nothing has changed when the copying raises.
        """
        copy = self.take()
        try:
            self._copy_block(block, copy)
        except BaseException:
            self.let_go(copy)
            raise
        self.let_go(block)
        return copy
