"""Weights whose file format is not packed as it is: their blocks in a form that can be, with the same values.

    RESTATED[GgmlType.IQ2_S](blocks of the file, uint8) -> blocks that the packed format moves, uint8

IQ1, IQ2 and IQ3 become the codes of their codebook: three planes of bits, laid out as Q3_K's, or nibbles,
laid out as IQ4_XS's. TQ1_0 and TQ2_0 become Q2_K blocks, NVFP4 the nibbles of Q4_0 with float16 scales.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rase_models.gguf.codebooks import CODEBOOKS, Coded
from rase_models.gguf.quants import BLOCK_DTYPES, nibbles, nvfp4_scales, trits
from rase_models.gguf.types import GgmlType

Bytes = NDArray[np.uint8]
Codes = NDArray[np.integer]
Blocks = NDArray[np.void]
Restate = Callable[[Blocks], Blocks]

_BLOCKS_AT_ONCE = 4096  # what they take apart stays in the caches


def planes_dtype(scales: int) -> np.dtype[np.void]:
    """Return the layout of 256 codes of 3 bits: third and low bits as in Q3_K, int8 scales, float16 d."""
    return np.dtype([("high", "u1", 32), ("low", "u1", 64), ("scales", "i1", scales), ("d", "<f2")])


NIBBLES_DTYPE = np.dtype([("d", "<f2"), ("scales", "i1", 8), ("qs", "u1", 128)])
"""The layout of 256 codes of 4 bits: nibbles as in IQ4_XS, int8 scales of 32 columns."""

NVFP4_DTYPE = np.dtype([("d", "<f2", 4), ("qs", "u1", 32)])
"""The layout of 64 codes of 4 bits: nibbles as in Q4_0, float16 scales of 16 columns."""


def restated(type_: GgmlType, data: Bytes) -> Bytes:
    """Return a tensor's blocks as its packed format takes them; most types' as they are."""
    if type_ not in RESTATED:
        return data
    blocks = data.reshape(-1).view(BLOCK_DTYPES[type_])
    parts = range(0, len(blocks), _BLOCKS_AT_ONCE)
    restate = RESTATED[type_]
    return np.concatenate([restate(blocks[at : at + _BLOCKS_AT_ONCE]).view(np.uint8) for at in parts])


def _planes(type_: GgmlType) -> Restate:
    book = CODEBOOKS[type_]

    def restate(blocks: Blocks) -> Blocks:
        coded = book.decode(blocks)
        target = _with_scales(coded, planes_dtype(book.scales))
        fields = _fields(coded.codes, 8)
        target["low"] = np.concatenate([_joined(fields[at : at + 4] & _in_every(3), 2) for at in (0, 4)], 1)
        target["high"] = _joined(fields >> np.uint64(2) & _in_every(1), 1)
        return target

    return restate


def _nibbles_of(type_: GgmlType) -> Restate:
    def restate(blocks: Blocks) -> Blocks:
        coded = CODEBOOKS[type_].decode(blocks)
        target = _with_scales(coded, NIBBLES_DTYPE)
        target["qs"] = _nibble_pairs(coded.codes)
        return target

    return restate


def _with_scales(coded: Coded, dtype: np.dtype[np.void]) -> Blocks:
    target = np.zeros(len(coded.d), dtype)
    target["scales"], target["d"] = coded.scales, coded.d
    return target


def _nibble_pairs(codes: Codes) -> Codes:
    """Put columns 16..31 of every 32 above columns 0..15: [blocks, columns] to [blocks, columns / 2]."""
    halves = codes.reshape(len(codes), -1, 2, 16)
    return (halves[:, :, 0] | halves[:, :, 1] << 4).reshape(len(codes), -1)


def _fields(codes: Codes, count: int) -> NDArray[np.uint64]:
    """Return the columns of each of `count` equal parts of all blocks, 8 codes a word: [count, blocks, 4]."""
    parts = codes.reshape(len(codes), count, -1).swapaxes(0, 1)
    return np.ascontiguousarray(parts).view(np.uint64)


def _in_every(byte: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([byte] * 8), "little"))


def _joined(fields: NDArray[np.uint64], bits: int) -> Bytes:
    """Put fields of so many bits above each other, in every byte: [fields, blocks, 4] to [blocks, 32]."""
    joined = fields[0].copy()
    for index, field in enumerate(fields[1:], start=1):
        joined |= field << np.uint64(bits * index)
    columns: Bytes = joined.view(np.uint8)
    return columns


def _q2_k(digits: Callable[[Blocks], Bytes]) -> Restate:
    """Make d * (digit - 1) a Q2_K block: scales and minimums of 1, and dmin = d."""

    def restate(blocks: Blocks) -> Blocks:
        target = np.zeros(len(blocks), BLOCK_DTYPES[GgmlType.Q2_K])
        target["scales"] = 0x11
        target["qs"] = digits(blocks)
        target["d"] = target["dmin"] = blocks["d"]
        return target

    return restate


def _crumbs_of_trits(blocks: Blocks) -> Bytes:
    fields = _fields(trits(blocks), 8)
    return np.concatenate([_joined(fields[at : at + 4], 2) for at in (0, 4)], axis=1)


def _nvfp4(blocks: Blocks) -> Blocks:
    target = np.zeros(len(blocks), NVFP4_DTYPE)
    target["d"] = nvfp4_scales(blocks)
    target["qs"] = _nibble_pairs(nibbles(blocks["qs"], 8))
    return target


RESTATED: Mapping[GgmlType, Restate] = MappingProxyType(
    {
        **{type_: _planes(type_) for type_, book in CODEBOOKS.items() if book.bits == 3},
        **{type_: _nibbles_of(type_) for type_, book in CODEBOOKS.items() if book.bits == 4},
        GgmlType.TQ1_0: _q2_k(_crumbs_of_trits),
        GgmlType.TQ2_0: _q2_k(lambda blocks: blocks["qs"]),
        GgmlType.NVFP4: _nvfp4,
    }
)
"""How the blocks of a type are restated."""
