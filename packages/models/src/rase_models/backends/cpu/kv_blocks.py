"""The memory of the paged KV cache: blocks that never move, found through a table of addresses."""

import ctypes

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.cpu.arena import Region

_SLAB_NBYTES = 32 << 20


class KvBlocks:
    """Blocks by number.

    Attributes:
        addresses: int64 [blocks], the table that kernels read; replaced when it grows.
        block_nbytes: the size of one, 0 for a program without layers that keep anything.
    """

    def __init__(self, block_nbytes: int) -> None:
        self.block_nbytes = block_nbytes
        self._block_nbytes = max(block_nbytes, 1)
        self._slabs: list[Region] = []
        self.addresses: NDArray[np.int64] = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.addresses)

    def reserve(self, blocks: int) -> bool:
        """Make at least so many blocks; says whether the table was replaced. Nothing may run meanwhile."""
        missing = blocks - len(self)
        if missing <= 0:
            return False
        count = max(missing, _SLAB_NBYTES // self._block_nbytes, 1)
        slab = Region(count * self._block_nbytes)
        self._slabs.append(slab)
        new = slab.address + np.arange(count, dtype=np.int64) * self._block_nbytes
        self.addresses = np.concatenate((self.addresses, new))
        return True

    def copy(self, source: int, target: int) -> None:
        """Copy a block."""
        ctypes.memmove(int(self.addresses[target]), int(self.addresses[source]), self._block_nbytes)
