"""Dequantise GGML's block formats, in numpy.

A block type is a structured dtype, its fields in the order of the file, and a function from an array of
blocks to float32 [blocks, elements]. Everywhere `d` is a block's scale, `m` or `dmin` that of its minimum.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import UnsupportedTensorType

from rase_models.gguf.codebooks import CODEBOOKS
from rase_models.gguf.types import GgmlType

Bytes = NDArray[np.uint8]
Codes = NDArray[np.integer]
Floats = NDArray[np.float32]
Blocks = NDArray[np.void]

BLOCK_DTYPES: Mapping[GgmlType, np.dtype[np.generic]] = MappingProxyType(
    {
        GgmlType.F32: np.dtype("<f4"),
        GgmlType.F16: np.dtype("<f2"),
        GgmlType.BF16: np.dtype("<u2"),
        GgmlType.Q4_0: np.dtype([("d", "<f2"), ("qs", "u1", 16)]),
        GgmlType.Q4_1: np.dtype([("d", "<f2"), ("m", "<f2"), ("qs", "u1", 16)]),
        GgmlType.Q5_0: np.dtype([("d", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)]),
        GgmlType.Q5_1: np.dtype([("d", "<f2"), ("m", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)]),
        GgmlType.Q8_0: np.dtype([("d", "<f2"), ("qs", "i1", 32)]),
        GgmlType.Q2_K: np.dtype([("scales", "u1", 16), ("qs", "u1", 64), ("d", "<f2"), ("dmin", "<f2")]),
        GgmlType.Q3_K: np.dtype([("hmask", "u1", 32), ("qs", "u1", 64), ("scales", "u1", 12), ("d", "<f2")]),
        GgmlType.Q4_K: np.dtype([("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qs", "u1", 128)]),
        GgmlType.Q5_K: np.dtype(
            [("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qh", "u1", 32), ("qs", "u1", 128)]
        ),
        GgmlType.Q6_K: np.dtype([("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), ("d", "<f2")]),
        GgmlType.IQ4_NL: np.dtype([("d", "<f2"), ("qs", "u1", 16)]),
        GgmlType.IQ4_XS: np.dtype(
            [("d", "<f2"), ("scales_h", "<u2"), ("scales_l", "u1", 4), ("qs", "u1", 128)]
        ),
        GgmlType.IQ1_S: np.dtype([("d", "<f2"), ("qs", "u1", 32), ("qh", "<u2", 8)]),
        GgmlType.IQ1_M: np.dtype([("qs", "u1", 32), ("qh", "u1", 16), ("scales", "<u2", 4)]),
        GgmlType.IQ2_XXS: np.dtype([("d", "<f2"), ("qs", "<u4", 16)]),
        GgmlType.IQ2_XS: np.dtype([("d", "<f2"), ("qs", "<u2", 32), ("scales", "u1", 8)]),
        GgmlType.IQ2_S: np.dtype(
            [("d", "<f2"), ("qs", "u1", 32), ("signs", "u1", 32), ("qh", "u1", 8), ("scales", "u1", 8)]
        ),
        GgmlType.IQ3_XXS: np.dtype([("d", "<f2"), ("qs", "u1", 64), ("scales", "<u4", 8)]),
        GgmlType.IQ3_S: np.dtype(
            [("d", "<f2"), ("qs", "u1", 64), ("qh", "u1", 8), ("signs", "u1", 32), ("scales", "u1", 4)]
        ),
        GgmlType.TQ1_0: np.dtype([("qs", "u1", 48), ("qh", "u1", 4), ("d", "<f2")]),
        GgmlType.TQ2_0: np.dtype([("qs", "u1", 64), ("d", "<f2")]),
        GgmlType.MXFP4: np.dtype([("e", "u1"), ("qs", "u1", 16)]),
        GgmlType.NVFP4: np.dtype([("d", "u1", 4), ("qs", "u1", 32)]),
    }
)
"""The layout of a block of every type that can be dequantised."""

IQ4_VALUES = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], dtype=np.int8
)
"""What the sixteen 4-bit codes of IQ4_NL and IQ4_XS mean."""

FP4_VALUES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=np.int8)
"""Twice what the sixteen codes of a 4-bit float (E2M1) of MXFP4 and NVFP4 mean."""


def dequantize(type: GgmlType, data: Bytes, shape: tuple[int, ...]) -> Floats:
    """Return the values of a tensor, float32 [*shape], from its bytes in the file.

    Raises UnsupportedTensorType for a type that is not in BLOCK_DTYPES.
    """
    if type not in _DEQUANTIZERS:
        raise UnsupportedTensorType(type.name, (kind.name for kind in BLOCK_DTYPES))
    blocks = np.ascontiguousarray(data).reshape(-1).view(BLOCK_DTYPES[type])
    with np.errstate(all="ignore"):  # a damaged scale may be infinite or not a number
        return _DEQUANTIZERS[type](blocks).reshape(shape)


def _floats(values: Blocks) -> Floats:
    return values.astype(np.float32)


def _bf16(blocks: Blocks) -> Floats:
    return (blocks.astype(np.uint32) << 16).view(np.float32)


def _q4_0(blocks: Blocks) -> Floats:
    return _scale(blocks, "d") * (nibbles(blocks["qs"], 16).astype(np.int8) - np.int8(8))


def _q4_1(blocks: Blocks) -> Floats:
    return _scale(blocks, "d") * nibbles(blocks["qs"], 16) + _scale(blocks, "m")


def _q5_0(blocks: Blocks) -> Floats:
    return _scale(blocks, "d") * (five_bits(blocks).astype(np.int8) - np.int8(16))


def _q5_1(blocks: Blocks) -> Floats:
    return _scale(blocks, "d") * five_bits(blocks) + _scale(blocks, "m")


def _q8_0(blocks: Blocks) -> Floats:
    return _scale(blocks, "d") * _floats(blocks["qs"])


def _q2_k(blocks: Blocks) -> Floats:
    scales = _scale(blocks, "d") * (blocks["scales"] & 15)  # [blocks, 16]
    minimums = _scale(blocks, "dmin") * (blocks["scales"] >> 4)
    codes = crumbs(blocks["qs"]).reshape(-1, 16, 16)
    return _each(scales) * codes - _each(minimums)


def _q3_k(blocks: Blocks) -> Floats:
    codes = q3_k_codes(blocks).astype(np.int8) - np.int8(4)
    scales = _scale(blocks, "d") * q3_k_scales(blocks["scales"])
    return _each(scales) * codes.reshape(-1, 16, 16)


def q3_k_codes(blocks: Blocks) -> Codes:
    """Return the 3-bit codes of Q3_K blocks, 4 above what they stand for: uint8 [blocks, 8, 32]."""
    low = crumbs(blocks["qs"]).reshape(-1, 8, 32)
    high = blocks["hmask"][:, None, :] >> _column(range(8)) & 1
    return low | high << 2


def q3_k_scales(packed: Codes) -> Codes:
    """Unpack 16 signed 6-bit scales of 12 bytes: 4 bits each in the first 8, 2 bits each in the rest."""
    low = nibbles(packed[:, :8], 8)
    high = packed[:, None, 8:] >> _column((0, 2, 4, 6)) & 3
    return (low | high.reshape(-1, 16) << 4).astype(np.int8) - np.int8(32)


def _q4_k(blocks: Blocks) -> Floats:
    return _with_k_scales(blocks, nibbles(blocks["qs"], 32).reshape(-1, 8, 32))


def _q5_k(blocks: Blocks) -> Floats:
    return _with_k_scales(blocks, q5_k_codes(blocks))


def q5_k_codes(blocks: Blocks) -> Codes:
    """Return the 5-bit codes of Q5_K blocks: [blocks, 8, 32]."""
    low = nibbles(blocks["qs"], 32).reshape(-1, 8, 32)
    high = blocks["qh"][:, None, :] >> _column(range(8)) & 1
    return low | high << 4


def _with_k_scales(blocks: Blocks, codes: Codes) -> Floats:
    """Apply the 8 scales and minimums of Q4_K or Q5_K blocks to their codes [blocks, 8, 32]."""
    scales, minimums = k_scales(blocks)
    return _each(_scale(blocks, "d") * scales) * codes - _each(_scale(blocks, "dmin") * minimums)


def k_scales(blocks: Blocks) -> tuple[Codes, Codes]:
    """Return the scales and the minimums of Q4_K or Q5_K blocks, uint8 [blocks, 8] each.

    They are 6 bits each in 12 bytes: scales 0-3 and minimums 0-3 in the low bits of bytes 0-7, the other four
    of each in the nibbles of bytes 8-11, topped up by the high bits of bytes 0-7.
    """
    first, second, third = blocks["scales"].reshape(-1, 3, 4).swapaxes(0, 1)
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=1)
    minimums = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=1)
    return scales, minimums


def _q6_k(blocks: Blocks) -> Floats:
    low = nibbles(blocks["ql"], 64)
    high = crumbs(blocks["qh"])
    codes = (low | high << 4).astype(np.int8) - np.int8(32)
    scales = _scale(blocks, "d") * blocks["scales"]
    return _each(scales) * codes.reshape(-1, 16, 16)


def _iq4_nl(blocks: Blocks) -> Floats:
    return _scale(blocks, "d") * IQ4_VALUES[nibbles(blocks["qs"], 16)]


def _iq4_xs(blocks: Blocks) -> Floats:
    return _each(iq4_xs_scales(blocks)) * IQ4_VALUES[nibbles(blocks["qs"], 16)].reshape(-1, 8, 32)


def iq4_xs_scales(blocks: Blocks) -> Floats:
    """Return the scales of IQ4_XS blocks, float32 [blocks, 8]."""
    low = np.stack([blocks["scales_l"] & 15, blocks["scales_l"] >> 4], axis=-1).reshape(-1, 8)
    high = blocks["scales_h"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    scales: Floats = _scale(blocks, "d") * ((low | high << 4).astype(np.int8) - np.int8(32))
    return scales


def trits(blocks: Blocks) -> Codes:
    """Return the digits 0, 1, 2 of TQ1_0 blocks: uint8 [blocks, 256].

    A byte is a fraction of 256 in base 3 of 5 digits (4 in the last bytes), rounded up.
    """
    parts = (blocks["qs"][:, :32], 5), (blocks["qs"][:, 32:], 5), (blocks["qh"], 4)
    digits = [_digits(packed, count).reshape(len(blocks), -1) for packed, count in parts]
    return np.concatenate(digits, axis=1)


def _digits(packed: Codes, count: int) -> Codes:
    rest = packed[:, None, :] * np.array([3**place for place in range(count)], np.uint8)[:, None]
    return (rest.astype(np.uint16) * np.uint16(3) >> 8).astype(np.uint8)


def _tq1_0(blocks: Blocks) -> Floats:
    return _scale(blocks, "d") * (trits(blocks).astype(np.int8) - np.int8(1))


def _tq2_0(blocks: Blocks) -> Floats:
    return _scale(blocks, "d") * (crumbs(blocks["qs"]).astype(np.int8) - np.int8(1))


def _mxfp4(blocks: Blocks) -> Floats:
    return mxfp4_scales(blocks) * FP4_VALUES[nibbles(blocks["qs"], 16)]


def mxfp4_scales(blocks: Blocks) -> Floats:
    """Return half of 2**(e - 127), a denormal number for the two least exponents: float32 [blocks, 1]."""
    exponents = blocks["e"].astype(np.uint32)[:, None]
    bits = np.where(exponents < 2, np.uint32(1 << 21) << exponents, exponents - 1 << 23)
    return bits.view(np.float32)


def nvfp4_scales(blocks: Blocks) -> Floats:
    """Return half of the scales of NVFP4 blocks, floats of 4 exponent and 3 mantissa bits: [blocks, 4].

    127, which stands for no number, counts as zero.
    """
    exponents, mantissas = (blocks["d"] >> 3 & 15).astype(np.int32), blocks["d"] & 7
    significands = np.where(exponents == 0, mantissas, mantissas + 8)
    scales = np.ldexp(significands, np.maximum(exponents, 1) - 11)
    return np.where(blocks["d"] == 127, 0, scales).astype(np.float32)


def _nvfp4(blocks: Blocks) -> Floats:
    codes = nibbles(blocks["qs"], 8).reshape(-1, 4, 16)
    return _each(nvfp4_scales(blocks)) * FP4_VALUES[codes]


def _scale(blocks: Blocks, field: str) -> Floats:
    """Return a half-precision field as float32 [blocks, 1]."""
    return _floats(blocks[field])[:, None]


def _each(values: Floats) -> Floats:
    """Make values [blocks, groups] count for every element of their group: [blocks, groups, 1]."""
    return values.reshape(len(values), -1, 1)


def nibbles(packed: Codes, group: int) -> Codes:
    """Split groups of bytes: the low nibbles of a group come before its high ones."""
    groups = packed.reshape(len(packed), -1, 1, group)
    return (groups >> _column((0, 4)) & 15).reshape(len(packed), -1)


def crumbs(packed: Codes) -> Codes:
    """Split groups of 32 bytes into 2-bit codes: the lowest bits of a group come first."""
    groups = packed.reshape(len(packed), -1, 1, 32)
    return (groups >> _column((0, 2, 4, 6)) & 3).reshape(len(packed), -1)


def five_bits(blocks: Blocks) -> Codes:
    """Return the codes of Q5_0 or Q5_1 blocks: [blocks, 32]."""
    high = np.unpackbits(blocks["qh"], axis=1, bitorder="little")
    return nibbles(blocks["qs"], 16) | high << 4


def _column(shifts: range | tuple[int, ...]) -> Codes:
    return np.array(shifts, dtype=np.uint8)[:, None]


_DEQUANTIZERS: Mapping[GgmlType, Callable[[Blocks], Floats]] = {
    GgmlType.F32: _floats,
    GgmlType.F16: _floats,
    GgmlType.BF16: _bf16,
    GgmlType.Q4_0: _q4_0,
    GgmlType.Q4_1: _q4_1,
    GgmlType.Q5_0: _q5_0,
    GgmlType.Q5_1: _q5_1,
    GgmlType.Q8_0: _q8_0,
    GgmlType.Q2_K: _q2_k,
    GgmlType.Q3_K: _q3_k,
    GgmlType.Q4_K: _q4_k,
    GgmlType.Q5_K: _q5_k,
    GgmlType.Q6_K: _q6_k,
    GgmlType.IQ4_NL: _iq4_nl,
    GgmlType.IQ4_XS: _iq4_xs,
    GgmlType.TQ1_0: _tq1_0,
    GgmlType.TQ2_0: _tq2_0,
    GgmlType.MXFP4: _mxfp4,
    GgmlType.NVFP4: _nvfp4,
    **{type_: codebook.dequantize for type_, codebook in CODEBOOKS.items()},
}
