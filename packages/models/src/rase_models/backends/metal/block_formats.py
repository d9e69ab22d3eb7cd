"""Blocks of a file as a GPU reads them: for each type, how 16 of its weights are decoded.

    BLOCK_FORMATS[GgmlType.Q6_K].decode

is the body of a function in Metal Shading Language. Given `block`, which 16 weights of it (`part`) and the
values of its codes (`values`), it sets w[0] to w[15] to what `gguf.quants.dequantize` gives.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rase_models.gguf.codebooks import CODEBOOKS, grid
from rase_models.gguf.quants import FP4_VALUES, IQ4_VALUES
from rase_models.gguf.types import GgmlType

Values = NDArray[np.int8]

PART = 16
"""Weights that are decoded together: in all these types they have one scale."""


def _no_values() -> Values:
    return np.zeros(PART, np.int8)


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """How a GPU decodes a type.

    Attributes:
        decode: in Metal Shading Language.
        values: makes what it finds in `values`: of each code, or of each entry of a grid.
    """

    decode: str
    values: Callable[[], Values] = _no_values


def _levels(type_: GgmlType, name: str) -> Callable[[], Values]:
    """Return what makes the values of a grid's entries, one entry after the other; signs come later."""

    def values() -> Values:
        levels = np.ascontiguousarray(grid(name)).view(np.uint8)
        return np.array(CODEBOOKS[type_].values, np.int8)[levels]

    return values


PRELUDE = """
inline float half_at(const device uint8_t* at) { return float(*(const device half*)at); }
inline uint short_at(const device uint8_t* at) { return at[0] | uint(at[1]) << 8; }
inline uint word_at(const device uint8_t* at) { return short_at(at) | short_at(at + 2) << 16; }
inline int low_or_high(uint packed, uint which) { return packed >> 4 * which & 15; }
inline uint even_signs(uint seven) { return seven | (popcount(seven) & 1) << 7; }

inline void give_signs(const device int8_t* levels, uint signs, uint count, float scale, thread float* w) {
    for (uint j = 0; j < count; ++j) w[j] = scale * (signs >> j & 1 ? -levels[j] : levels[j]);
}
"""

_Q2_K = """
    const device uint8_t* codes = block + 16 + 32 * (part / 8) + 16 * (part % 2);
    uint shift = part % 8 / 2 * 2;
    float scale = half_at(block + 80) * (block[part] & 15);
    float minimum = half_at(block + 82) * (block[part] >> 4);
    for (uint j = 0; j < 16; ++j) w[j] = scale * (codes[j] >> shift & 3) - minimum;
"""

_Q3_K = """
    const device uint8_t* high = block + 16 * (part % 2);
    const device uint8_t* low = block + 32 + 32 * (part / 8) + 16 * (part % 2);
    const device uint8_t* scales = block + 96;
    uint shift = part % 8 / 2 * 2, bit = part / 2;
    int scale = low_or_high(scales[part % 8], part / 8) | (scales[8 + part % 4] >> 2 * (part / 4) & 3) << 4;
    float step = half_at(block + 108) * (scale - 32);
    for (uint j = 0; j < 16; ++j) w[j] = step * (int((low[j] >> shift & 3) | (high[j] >> bit & 1) << 2) - 4);
"""

_Q6_K = """
    const device uint8_t* low = block + 64 * (part / 8) + 16 * (part % 4);
    const device uint8_t* high = block + 128 + 32 * (part / 8) + 16 * (part % 2);
    uint half_of_byte = part % 8 / 4, shift = part % 8 / 2 * 2;
    float step = half_at(block + 208) * ((const device int8_t*)block)[192 + part];
    for (uint j = 0; j < 16; ++j) {
        w[j] = step * ((low_or_high(low[j], half_of_byte) | (high[j] >> shift & 3) << 4) - 32);
    }
"""

_IQ4_NL = """
    float step = half_at(block);
    for (uint j = 0; j < 16; ++j) w[j] = step * values[low_or_high(block[2 + j], part)];
"""

_IQ4_XS = """
    uint group = part / 2;
    const device uint8_t* codes = block + 8 + 16 * group;
    int scale = low_or_high(block[4 + group / 2], group % 2) | (short_at(block + 2) >> 2 * group & 3) << 4;
    float step = half_at(block) * (scale - 32);
    for (uint j = 0; j < 16; ++j) w[j] = step * values[low_or_high(codes[j], part % 2)];
"""

_NVFP4 = """
    uint bits = block[part], mantissa = bits & 7;
    int exponent = bits >> 3 & 15;
    uint significand = exponent == 0 ? mantissa : mantissa + 8;
    float step = bits == 127 ? 0.0f : ldexp(float(significand), max(exponent, 1) - 11);
    const device uint8_t* codes = block + 4 + 8 * part;
    for (uint j = 0; j < 16; ++j) w[j] = step * values[low_or_high(codes[j % 8], j / 8)];
"""

_IQ2_XXS = """
    const device uint8_t* group = block + 2 + 8 * (part / 2);
    uint packed = word_at(group + 4);
    float scale = half_at(block) * 0.125f * (2 * (packed >> 28) + 1);
    for (uint i = 0; i < 2; ++i) {
        uint which = 2 * (part % 2) + i;
        uint signs = even_signs(packed >> 7 * which & 127);
        give_signs(values + 8 * group[which], signs, 8, scale, w + 8 * i);
    }
"""

_IQ2_XS = """
    float scale = half_at(block) * 0.125f * (2 * low_or_high(block[66 + part / 2], part % 2) + 1);
    for (uint i = 0; i < 2; ++i) {
        uint packed = short_at(block + 2 + 2 * (2 * part + i));
        give_signs(values + 8 * (packed & 511), even_signs(packed >> 9), 8, scale, w + 8 * i);
    }
"""

_IQ2_S = """
    float scale = half_at(block) * 0.125f * (2 * low_or_high(block[74 + part / 2], part % 2) + 1);
    for (uint i = 0; i < 2; ++i) {
        uint which = 2 * part + i;
        uint entry = block[2 + which] | (block[66 + which / 4] >> 2 * (which % 4) & 3) << 8;
        give_signs(values + 8 * entry, block[34 + which], 8, scale, w + 8 * i);
    }
"""

_IQ3_XXS = """
    uint packed = word_at(block + 66 + 4 * (part / 2));
    float scale = half_at(block) * 0.25f * (2 * (packed >> 28) + 1);
    for (uint i = 0; i < 4; ++i) {
        uint signs = even_signs(packed >> 7 * (2 * (part % 2) + i / 2) & 127) >> 4 * (i % 2);
        give_signs(values + 4 * block[2 + 4 * part + i], signs, 4, scale, w + 4 * i);
    }
"""

_IQ3_S = """
    float scale = half_at(block) * (2 * low_or_high(block[106 + part / 4], part / 2 % 2) + 1);
    for (uint i = 0; i < 4; ++i) {
        uint which = 4 * part + i;
        uint entry = block[2 + which] | (block[66 + which / 8] >> which % 8 & 1) << 8;
        give_signs(values + 4 * entry, block[74 + which / 2] >> 4 * (i % 2), 4, scale, w + 4 * i);
    }
"""

_IQ1_S = """
    uint packed = short_at(block + 34 + 2 * (part / 2));
    float scale = half_at(block) * 0.125f * (2 * (packed >> 12 & 7) + 1);
    int lower = packed >> 15 ? 2 : 0;
    for (uint i = 0; i < 2; ++i) {
        uint which = 2 * part + i;
        const device int8_t* levels = values + 8 * (block[2 + which] | (packed >> 3 * (which % 4) & 7) << 8);
        for (uint j = 0; j < 8; ++j) w[8 * i + j] = scale * (levels[j] - lower);
    }
"""

_IQ1_M = """
    uint bits = 0;
    for (uint i = 0; i < 4; ++i) bits |= short_at(block + 48 + 2 * i) >> 12 << 4 * i;
    uint packed = short_at(block + 48 + 2 * (part / 4)) >> 3 * (part % 4) & 7;
    float scale = float(as_type<half>(ushort(bits))) * 0.125f * (2 * packed + 1);
    for (uint i = 0; i < 2; ++i) {
        uint which = 2 * part + i;
        uint high = low_or_high(block[32 + part], i);
        const device int8_t* levels = values + 8 * (block[which] | (high & 7) << 8);
        int lower = high >> 3 ? 2 : 0;
        for (uint j = 0; j < 8; ++j) w[8 * i + j] = scale * (levels[j] - lower);
    }
"""

BLOCK_FORMATS: Mapping[GgmlType, BlockFormat] = MappingProxyType(
    {
        GgmlType.Q2_K: BlockFormat(_Q2_K),
        GgmlType.Q3_K: BlockFormat(_Q3_K),
        GgmlType.Q6_K: BlockFormat(_Q6_K),
        GgmlType.IQ4_NL: BlockFormat(_IQ4_NL, lambda: IQ4_VALUES),
        GgmlType.IQ4_XS: BlockFormat(_IQ4_XS, lambda: IQ4_VALUES),
        GgmlType.NVFP4: BlockFormat(_NVFP4, lambda: FP4_VALUES),
        GgmlType.IQ2_XXS: BlockFormat(_IQ2_XXS, _levels(GgmlType.IQ2_XXS, "iq2_xxs")),
        GgmlType.IQ2_XS: BlockFormat(_IQ2_XS, _levels(GgmlType.IQ2_XS, "iq2_xs")),
        GgmlType.IQ2_S: BlockFormat(_IQ2_S, _levels(GgmlType.IQ2_S, "iq2_s")),
        GgmlType.IQ3_XXS: BlockFormat(_IQ3_XXS, _levels(GgmlType.IQ3_XXS, "iq3_xxs")),
        GgmlType.IQ3_S: BlockFormat(_IQ3_S, _levels(GgmlType.IQ3_S, "iq3_s")),
        GgmlType.IQ1_S: BlockFormat(_IQ1_S, _levels(GgmlType.IQ1_S, "iq1")),
        GgmlType.IQ1_M: BlockFormat(_IQ1_M, _levels(GgmlType.IQ1_M, "iq1")),
    }
)
"""The types that a GPU reads as they are in the file.

They are those that MLX's affine form cannot hold or would make larger: on the CPU device they take that form.
"""
