"""The KV cache on the device: blocks of positions for every attention layer."""

import math

import mlx.core as mx

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.metal.paged_attention import AttentionKernels
from rase_models.kv_type import KvType
from rase_models.program import KvLayer

KV_DTYPES = {KvType.F32: mx.float32, KvType.F16: mx.float16}


class LayerCache:
    """The keys and values of one attention layer, [blocks, BLOCK_TOKENS, heads, length].

    Attributes:
        group: the group of layers whose block tables it has.
        kernels: attend to its blocks where they are; None where there are none.
    """

    def __init__(
        self, layer: KvLayer, group: int, dtype: mx.Dtype, kernels: AttentionKernels | None = None
    ) -> None:
        self.group = group
        self.dtype = dtype
        self.kernels = kernels
        self.keys = mx.zeros((0, BLOCK_TOKENS, layer.head_count_kv, layer.key_length), dtype)
        self.values = mx.zeros((0, BLOCK_TOKENS, layer.head_count_kv, layer.value_length), dtype)

    def reserve(self, blocks: int) -> None:
        """Grow to at least so many blocks."""
        self.keys, self.values = (_grown(array, blocks) for array in (self.keys, self.values))
        mx.eval(self.keys, self.values)

    def growth_nbytes(self, blocks: int) -> int:
        """Return the bytes of the arrays that growing makes, beside those that are; 0 if there is room."""
        if blocks <= self.keys.shape[0]:
            return 0
        return blocks * sum(
            math.prod(array.shape[1:]) * self.dtype.size for array in (self.keys, self.values)
        )

    def block(self, number: int) -> tuple[mx.array, mx.array]:
        """Return a copy of a block's keys and values."""
        return mx.contiguous(self.keys[number]), mx.contiguous(self.values[number])

    def put_block(self, number: int, keys: mx.array, values: mx.array) -> None:
        """Replace a block's keys and values."""
        self.keys[number], self.values[number] = keys, values

    def write(self, blocks: mx.array, places: mx.array, keys: mx.array, values: mx.array) -> None:
        """Store keys and values [rows, width] at places [rows] of blocks [rows]."""
        for cached, given in ((self.keys, keys), (self.values, values)):
            cached[blocks, places] = given.reshape(-1, *cached.shape[2:]).astype(self.dtype)

    def read(self, blocks: mx.array) -> tuple[mx.array, mx.array]:
        """Return keys and values of blocks [sequences, blocks]: [sequences, heads, positions, length]."""
        keys, values = (_joined(array[blocks]) for array in (self.keys, self.values))
        return keys, values


def _grown(array: mx.array, blocks: int) -> mx.array:
    """Return a longer array, filled in place: to join zeros to the old one would take their memory twice."""
    held = array.shape[0]
    if blocks <= held:
        return array
    grown = mx.zeros((blocks, *array.shape[1:]), array.dtype)
    if held:
        grown[:held] = array
    return grown


def _joined(blocks: mx.array) -> mx.array:
    sequences, _, _, heads, length = blocks.shape
    return blocks.reshape(sequences, -1, heads, length).transpose(0, 2, 1, 3)
