"""The types of under 4 bits that name whole groups of weights in a grid: IQ1, IQ2 and IQ3.

A weight is `d * factor * scale * values[code]`: `d` a float16 of the block of 256 columns, `scale` a small
integer of 16 or 32 columns, `code` 3 or 4 bits. The file has no codes but the number of an entry of a grid,
4 or 8 levels at once, and signs beside it; here they come apart. Their layout is that of GGML's
`ggml-common.h`; the grids are the constants of that file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rase_models.gguf.types import GgmlType

Bytes = NDArray[np.uint8]
Codes = NDArray[np.integer]
Blocks = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Coded:
    """Blocks of 256 columns, taken apart.

    Attributes:
        codes: uint8 [blocks, 256].
        scales: int8 [blocks, 8 or 16].
        d: float16 [blocks].
    """

    codes: Bytes
    scales: NDArray[np.int8]
    d: NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Codebook:
    """What the codes of a type mean.

    Attributes:
        bits: bits of a code.
        values: the value of each code, 2**bits of them, in -127..127.
        factor: a power of two.
        scales: scales of a block.
        decode: takes blocks apart.
    """

    bits: int
    values: tuple[int, ...]
    factor: float
    scales: int
    decode: Callable[[Blocks], Coded]

    def dequantize(self, blocks: Blocks) -> NDArray[np.float32]:
        """Return the values of blocks, float32 [blocks, 256]."""
        coded = self.decode(blocks)
        scales = coded.d.astype(np.float32)[:, None] * np.float32(self.factor) * coded.scales
        values = np.array(self.values, dtype=np.float32)[coded.codes].reshape(len(blocks), self.scales, -1)
        return (scales[:, :, None] * values).reshape(len(blocks), -1)


@cache
def grid(name: str) -> NDArray[np.uint64] | NDArray[np.uint32]:
    """Return a grid, an entry's levels as the bytes of one integer: uint64 for 8 levels, uint32 for 4."""
    with files("rase_models.gguf").joinpath("grids.npz").open("rb") as file, np.load(file) as arrays:
        levels: Bytes = arrays[name]
    kind = {8: np.uint64, 4: np.uint32}[levels.shape[1]]
    return levels.view(kind)[:, 0]


@cache
def _spread() -> NDArray[np.uint64]:
    """Return for each byte its 8 bits as the lowest bits of 8 bytes."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return np.ascontiguousarray(bits).view(np.uint64)[:, 0]


@cache
def _even_signs() -> Bytes:
    """Return for each 7 bits the 8 signs that they stand for: the eighth makes the number of signs even."""
    seven = np.arange(128, dtype=np.uint8)
    parity = np.unpackbits(seven[:, None], axis=1).sum(axis=1, dtype=np.uint8) & 1
    signs: Bytes = seven | parity << 7
    return signs


def _codes(name: str, entries: Codes, signs: Codes, sign_bit: int) -> Bytes:
    """Join levels and signs: entries [blocks, 64 or 32], signs [blocks, 32] of 8 bits each."""
    levels: NDArray[np.uint64] = np.ascontiguousarray(grid(name)[entries]).view(np.uint64)
    codes: Bytes = (levels | _spread()[signs] << np.uint64(sign_bit)).view(np.uint8)
    return codes


def _packed_signs(words: NDArray[np.uint32]) -> Bytes:
    """Return the signs of 32 columns from the low 28 bits of a word: [blocks, 8] to [blocks, 32]."""
    seven = words[:, :, None] >> np.array((0, 7, 14, 21), np.uint32) & np.uint32(127)
    signs: Bytes = _even_signs()[seven.reshape(len(words), -1)]
    return signs


def _odd(numbers: Codes) -> NDArray[np.int8]:
    """Return 2 n + 1."""
    return (2 * numbers + 1).astype(np.int8)


def _halves(packed: Bytes) -> Bytes:
    """Return the nibbles of bytes, the low one first."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)


def _high_bits(packed: Codes, shifts: tuple[int, ...], mask: int) -> NDArray[np.uint16]:
    """Return fields of `packed`, moved to where the ninth bit begins."""
    fields = packed[:, :, None] >> np.array(shifts, packed.dtype) & packed.dtype.type(mask)
    return fields.reshape(len(packed), -1).astype(np.uint16) << np.uint16(8)


def _iq2_xxs(blocks: Blocks) -> Coded:
    words = blocks["qs"].reshape(-1, 8, 2)
    entries = np.ascontiguousarray(words[:, :, 0]).view(np.uint8)
    second = words[:, :, 1]
    return Coded(_codes("iq2_xxs", entries, _packed_signs(second), 2), _odd(second >> 28), blocks["d"])


def _iq2_xs(blocks: Blocks) -> Coded:
    entries, signs = blocks["qs"] & 511, _even_signs()[blocks["qs"] >> 9]
    return Coded(_codes("iq2_xs", entries, signs, 2), _odd(_halves(blocks["scales"])), blocks["d"])


def _iq2_s(blocks: Blocks) -> Coded:
    entries = blocks["qs"] | _high_bits(blocks["qh"], (0, 2, 4, 6), 3)
    codes = _codes("iq2_s", entries, blocks["signs"], 2)
    return Coded(codes, _odd(_halves(blocks["scales"])), blocks["d"])


def _iq3_xxs(blocks: Blocks) -> Coded:
    codes = _codes("iq3_xxs", blocks["qs"], _packed_signs(blocks["scales"]), 3)
    return Coded(codes, _odd(blocks["scales"] >> 28), blocks["d"])


def _iq3_s(blocks: Blocks) -> Coded:
    entries = blocks["qs"] | _high_bits(blocks["qh"], tuple(range(8)), 1)
    codes = _codes("iq3_s", entries, blocks["signs"], 3)
    return Coded(codes, _odd(_halves(blocks["scales"])), blocks["d"])


def _iq1_s(blocks: Blocks) -> Coded:
    entries = blocks["qs"] | _high_bits(blocks["qh"], (0, 3, 6, 9), 7)
    below = np.repeat(blocks["qh"] >> 15, 4, axis=1) * np.uint8(255)  # the shift of 32 columns, 8 at a time
    return Coded(_codes("iq1", entries, below, 2), _odd(blocks["qh"] >> 12 & 7), blocks["d"])


def _iq1_m(blocks: Blocks) -> Coded:
    entries = blocks["qs"] | _high_bits(blocks["qh"], (0, 4), 7)
    below = (_halves(blocks["qh"]) >> 3) * np.uint8(255)
    words = blocks["scales"]
    scales = words[:, :, None] >> np.array((0, 3, 6, 9), np.uint16) & np.uint16(7)
    top = words >> 12 << np.array((0, 4, 8, 12), np.uint16)
    d = np.bitwise_or.reduce(top, axis=1).view(np.float16)
    return Coded(_codes("iq1", entries, below, 2), _odd(scales.reshape(len(words), -1)), d)


def _signed(*levels: int) -> tuple[int, ...]:
    """Return the levels and, for codes with the top bit set, their negatives."""
    return (*levels, *(-level for level in levels))


_IQ2 = _signed(8, 25, 43, 0)
_IQ1 = (-7, 1, 9, 0, -9, -1, 7, 0)
"""8 times -1, 0 and 1, moved up by 1, or down where the top bit is set."""

CODEBOOKS: Mapping[GgmlType, Codebook] = MappingProxyType(
    {
        GgmlType.IQ2_XXS: Codebook(3, _IQ2, 1 / 8, 8, _iq2_xxs),
        GgmlType.IQ2_XS: Codebook(3, _IQ2, 1 / 8, 16, _iq2_xs),
        GgmlType.IQ2_S: Codebook(3, _IQ2, 1 / 8, 16, _iq2_s),
        GgmlType.IQ3_XXS: Codebook(4, _signed(4, 12, 20, 28, 36, 44, 52, 62), 1 / 4, 8, _iq3_xxs),
        GgmlType.IQ3_S: Codebook(4, _signed(1, 3, 5, 7, 9, 11, 13, 15), 1.0, 8, _iq3_s),
        GgmlType.IQ1_S: Codebook(3, _IQ1, 1 / 8, 8, _iq1_s),
        GgmlType.IQ1_M: Codebook(3, _IQ1, 1 / 8, 16, _iq1_m),
    }
)
"""The codebook of every type that has one."""
