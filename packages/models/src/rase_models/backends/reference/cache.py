"""The KV cache of the reference backend: float32 blocks of positions."""

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.program import KvLayer, Program

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


class LayerCache:
    """The keys and values of one attention layer, float32 [blocks, BLOCK_TOKENS, heads, length].

    `group` is the index of the layer's group.
    """

    def __init__(self, layer: KvLayer, group: int = 0) -> None:
        self.group = group
        self.keys = np.zeros((0, BLOCK_TOKENS, layer.head_count_kv, layer.key_length), np.float32)
        self.values = np.zeros((0, BLOCK_TOKENS, layer.head_count_kv, layer.value_length), np.float32)

    @property
    def block_nbytes(self) -> int:
        """The bytes of a block."""
        return sum(int(array.itemsize * np.prod(array.shape[1:])) for array in (self.keys, self.values))

    def reserve(self, blocks: int) -> None:
        """Grow to at least so many blocks."""
        more = blocks - len(self.keys)
        if more > 0:
            self.keys = np.concatenate([self.keys, np.zeros((more, *self.keys.shape[1:]), np.float32)])
            self.values = np.concatenate([self.values, np.zeros((more, *self.values.shape[1:]), np.float32)])

    def copy_block(self, source: int, target: int) -> None:
        """Copy a block."""
        self.keys[target] = self.keys[source]
        self.values[target] = self.values[source]

    def write(self, table: Ints, positions: Ints, keys: Floats, values: Floats) -> None:
        """Store rows of keys and values at positions of the sequence with this block table."""
        blocks, slots = table[positions // BLOCK_TOKENS], positions % BLOCK_TOKENS
        self.keys[blocks, slots] = keys.reshape(len(positions), *self.keys.shape[2:])
        self.values[blocks, slots] = values.reshape(len(positions), *self.values.shape[2:])

    def read(self, table: Ints, first: int, length: int) -> tuple[Floats, Floats]:
        """Return the keys and values of positions `first` to length - 1, float32 [positions, heads, ...]."""
        start = first // BLOCK_TOKENS
        blocks = table[start : -(-length // BLOCK_TOKENS)]
        positions = slice(first - start * BLOCK_TOKENS, length - start * BLOCK_TOKENS)
        keys, values = self.keys[blocks], self.values[blocks]
        return (
            keys.reshape(-1, *keys.shape[2:])[positions],
            values.reshape(-1, *values.shape[2:])[positions],
        )


def layer_caches(program: Program) -> tuple[LayerCache, ...]:
    """Return an empty cache for each layer."""
    groups = {layer: index for index, group in enumerate(program.kv_groups) for layer in group.layers}
    return tuple(LayerCache(layer, groups[index]) for index, layer in enumerate(program.kv_layers))
