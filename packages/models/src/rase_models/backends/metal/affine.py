"""GGUF's blocks as MLX's affine form: weight = scale * code + bias, with a scale and a bias for 32 columns.

    AFFINE[GgmlType.Q4_K].of(blocks) -> codes [blocks, columns], scales and biases float32 [blocks, groups]

All types with scales of 32 columns come out exact. Those with scales of 16 do not fit, since MLX has no such
groups: they become the nearest of 256 levels, spaced so that the half with the larger scale is hit best.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rase_models.gguf import quants
from rase_models.gguf.codebooks import CODEBOOKS
from rase_models.gguf.quants import FP4_VALUES, IQ4_VALUES, nibbles
from rase_models.gguf.types import GgmlType

Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]
Blocks = NDArray[np.void]

GROUP = 32
"""Columns that share a scale."""
_LEVELS = 255
_STEPS = 254  # one less, as the lowest level is a multiple of the step and not the lowest value


@dataclass(frozen=True, slots=True)
class Parts:
    """Blocks taken apart: codes uint8 [blocks, columns], scales and biases float32 [blocks, groups]."""

    codes: NDArray[np.integer]
    scales: Floats
    biases: Floats


@dataclass(frozen=True, slots=True)
class AffineForm:
    """How a type becomes affine.

    Attributes:
        bits: bits of a code: 2, 4, 5 or 8.
        of: takes blocks apart.
        is_exact: whether every weight keeps its value.
    """

    bits: int
    of: Callable[[Blocks], Parts]
    is_exact: bool = True


def pack(codes: NDArray[np.integer], bits: int) -> NDArray[np.uint32]:
    """Join codes [..., columns] to one stream of bits, lowest first: uint32 [..., columns * bits / 32]."""
    eights = np.ascontiguousarray(codes, np.uint8).reshape(*codes.shape[:-1], -1, 8)
    if bits == 8:
        return eights.reshape(codes.shape).view("<u4")
    stream = np.zeros((*eights.shape[:-1], bits), np.uint8)
    for byte, place in product(range(bits), range(8)):
        shift = bits * place - 8 * byte
        if -bits < shift < 8:
            code = eights[..., place]
            stream[..., byte] |= code << shift if shift >= 0 else code >> -shift
    return stream.reshape(*codes.shape[:-1], -1).view("<u4")


def _half(blocks: Blocks, field: str) -> Floats:
    """Return a float16 field as float32 [blocks, 1]."""
    return blocks[field].astype(np.float32)[:, None]


def _centred(codes: Callable[[Blocks], NDArray[np.integer]], offset: int) -> Callable[[Blocks], Parts]:
    """Make d * (code - offset) affine."""

    def of(blocks: Blocks) -> Parts:
        d = _half(blocks, "d")
        return Parts(codes(blocks), d, -offset * d)

    return of


def _with_minimum(codes: Callable[[Blocks], NDArray[np.integer]]) -> Callable[[Blocks], Parts]:
    """Make d * code + m affine."""
    return lambda blocks: Parts(codes(blocks), _half(blocks, "d"), _half(blocks, "m"))


def _k(codes: Callable[[Blocks], NDArray[np.integer]]) -> Callable[[Blocks], Parts]:
    """Make d * scale * code - dmin * minimum affine."""

    def of(blocks: Blocks) -> Parts:
        scales, minimums = quants.k_scales(blocks)
        return Parts(codes(blocks), _half(blocks, "d") * scales, -_half(blocks, "dmin") * minimums)

    return of


def _looked_up(
    scales: Callable[[Blocks], Floats], group: int, values: NDArray[np.int8]
) -> Callable[[Blocks], Parts]:
    """Make scale * values[nibble] affine: the codes are the values, moved up until none is negative."""
    offset = -int(values.min())
    table = (values.astype(np.int16) + offset).astype(np.uint8)

    def of(blocks: Blocks) -> Parts:
        found = scales(blocks)
        return Parts(table[nibbles(blocks["qs"], group)], found, np.float32(-offset) * found)

    return of


def _codebook(type_: GgmlType) -> Callable[[Blocks], Parts]:
    """Make d * factor * scale * values[code] affine."""
    book = CODEBOOKS[type_]
    table = (np.array(book.values) + 128).astype(np.uint8)

    def of(blocks: Blocks) -> Parts:
        coded = book.decode(blocks)
        scales = coded.d.astype(np.float32)[:, None] * np.float32(book.factor) * coded.scales
        return Parts(table[coded.codes], scales, np.float32(-128) * scales)

    return of


def _nearest(type_: GgmlType) -> Callable[[Blocks], Parts]:
    """Put the values of every 32 columns on 256 levels."""

    def of(blocks: Blocks) -> Parts:
        values = quants.dequantize(type_, blocks.view(np.uint8), (len(blocks), -1, GROUP))
        low, high = values.min(axis=-1), values.max(axis=-1)
        step = _step(values, high - low)
        bias = np.where(step > 0, np.floor(low / np.where(step > 0, step, 1)), 0) * step
        levels = (values - bias[..., None]) / np.where(step > 0, step, 1)[..., None]
        codes = np.clip(np.rint(levels), 0, _LEVELS).astype(np.uint8)
        return Parts(codes.reshape(len(blocks), -1), step, bias)

    return of


def _step(values: Floats, span: Floats) -> Floats:
    """Return the distance of levels [blocks, groups]: what the larger half's own steps are a multiple of.

    A half's own step is the smallest difference between its values; where all are equal there is none.
    """
    halves = np.sort(values.reshape(*values.shape[:-1], 2, -1), axis=-1)
    steps = np.diff(halves, axis=-1)
    steps = np.where(steps > 0, steps, np.inf).min(axis=-1)
    own = np.where(np.isfinite(steps), steps, 0).max(axis=-1)
    whole = np.floor(np.divide(_STEPS * own, span, out=np.zeros_like(span), where=span > 0))
    wide = (span / _STEPS).astype(np.float32)
    return np.where(whole > 0, own / np.maximum(whole, 1), wide).astype(np.float32)


def _q5_codes(blocks: Blocks) -> NDArray[np.integer]:
    return quants.five_bits(blocks)


def _q5_k_codes(blocks: Blocks) -> NDArray[np.integer]:
    return quants.q5_k_codes(blocks).reshape(len(blocks), -1)


def _ternary(codes: Callable[[Blocks], NDArray[np.integer]]) -> Callable[[Blocks], Parts]:
    """Make d * (digit - 1) affine, the one scale repeated for each group."""

    def of(blocks: Blocks) -> Parts:
        d = np.repeat(_half(blocks, "d"), 256 // GROUP, axis=1)
        return Parts(codes(blocks), d, -d)

    return of


AFFINE: Mapping[GgmlType, AffineForm] = MappingProxyType(
    {
        GgmlType.Q4_0: AffineForm(4, _centred(lambda blocks: nibbles(blocks["qs"], 16), 8)),
        GgmlType.Q4_1: AffineForm(4, _with_minimum(lambda blocks: nibbles(blocks["qs"], 16))),
        GgmlType.Q5_0: AffineForm(5, _centred(_q5_codes, 16)),
        GgmlType.Q5_1: AffineForm(5, _with_minimum(_q5_codes)),
        GgmlType.Q8_0: AffineForm(8, _centred(lambda blocks: blocks["qs"].view(np.uint8) ^ 0x80, 128)),
        GgmlType.Q4_K: AffineForm(4, _k(lambda blocks: nibbles(blocks["qs"], 32))),
        GgmlType.Q5_K: AffineForm(5, _k(_q5_k_codes)),
        GgmlType.IQ4_NL: AffineForm(8, _looked_up(lambda blocks: _half(blocks, "d"), 16, IQ4_VALUES)),
        GgmlType.IQ4_XS: AffineForm(8, _looked_up(quants.iq4_xs_scales, 16, IQ4_VALUES)),
        GgmlType.MXFP4: AffineForm(5, _looked_up(quants.mxfp4_scales, 16, FP4_VALUES)),
        GgmlType.TQ1_0: AffineForm(2, _ternary(quants.trits)),
        GgmlType.TQ2_0: AffineForm(2, _ternary(lambda blocks: quants.crumbs(blocks["qs"]))),
        **{type_: AffineForm(8, _codebook(type_)) for type_, book in CODEBOOKS.items() if book.scales == 8},
        **{
            type_: AffineForm(8, _nearest(type_), False)
            for type_, book in CODEBOOKS.items()
            if book.scales == 16
        },
        **{
            type_: AffineForm(8, _nearest(type_), False)
            for type_ in (GgmlType.Q2_K, GgmlType.Q3_K, GgmlType.Q6_K, GgmlType.NVFP4)
        },
    }
)
"""The form of every quantised type."""


def packed_nbytes(type_: GgmlType, values: int, scale_nbytes: int) -> int:
    """Return the bytes that so many weights of a quantised type take, with scales and biases of that size."""
    return values * AFFINE[type_].bits // 8 + 2 * (values // GROUP) * scale_nbytes
