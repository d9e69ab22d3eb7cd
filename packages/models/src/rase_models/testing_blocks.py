"""Random blocks of any quantisation type, for tests."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rase_models.gguf.types import TYPE_LAYOUTS, GgmlType

_SCALES: Mapping[GgmlType, tuple[int, ...]] = MappingProxyType(
    {
        GgmlType.Q4_1: (0, 2),
        GgmlType.Q5_1: (0, 2),
        GgmlType.Q2_K: (80, 82),
        GgmlType.Q3_K: (108,),
        GgmlType.Q4_K: (0, 2),
        GgmlType.Q5_K: (0, 2),
        GgmlType.Q6_K: (208,),
        GgmlType.IQ1_M: (54,),  # the high byte holds the top of a float16 that is spread over the block
        GgmlType.TQ1_0: (52,),
        GgmlType.TQ2_0: (64,),
        GgmlType.MXFP4: (),
        GgmlType.NVFP4: (),
    }
)
"""Where a block has float16 numbers, if not at 0."""


def random_blocks(
    type_: GgmlType, shape: tuple[int, ...], seed: int, *, limit: int = 0x3F
) -> NDArray[np.uint8]:
    """Return the bytes of a tensor of random weights: uint8 [*shape[:-1], bytes of a row].

    F32 is normal; of other types every bit is random but for the scales: the high byte of a float16 is at
    most `limit`, with any sign, and the exponents of MXFP4 and NVFP4 are near that of 1.
    """
    rng = np.random.default_rng(seed)
    if type_ is GgmlType.F32:
        return rng.standard_normal(shape).astype(np.float32).view(np.uint8)
    columns, nbytes = TYPE_LAYOUTS[type_]
    blocks = rng.integers(0, 256, (*shape[:-1], shape[-1] // columns, nbytes), dtype=np.uint8)
    for offset in _SCALES.get(type_, (0,)):
        high = blocks[..., offset + 1]
        blocks[..., offset + 1] = np.where((high & 0x7F) > limit, high & (0x80 | limit), high)
    if type_ is GgmlType.MXFP4:
        blocks[..., 0] = 120 + blocks[..., 0] % 8
    if type_ is GgmlType.NVFP4:
        blocks[..., :4] &= 0x2F
    return blocks.reshape(*shape[:-1], -1)
