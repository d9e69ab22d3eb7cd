"""Rotary positions: frequencies and their scaling from metadata.

Pair i of d/2 turns by base^(-2i/d) per position. A file stretches the positions in one of these ways: linear
(every frequency divided by a factor), YaRN (only the slow ones, https://arxiv.org/abs/2309.00071), and a
tensor of divisors: `rope_freqs.weight`, how llama3's scaling is stored, or one for contexts up to the
original one and one for longer ones (LongRoPE, https://arxiv.org/abs/2402.13753).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase_models.architectures.hyperparameters import MAX_POSITION
from rase_models.architectures.keys import ArchitectureKeys
from rase_models.architectures.tensors import TensorTable
from rase_models.program import Rope, RopePairing

Frequencies = NDArray[np.float64]

DIVISORS = "rope_freqs.weight"
SHORT_DIVISORS, LONG_DIVISORS = "rope_factors_short.weight", "rope_factors_long.weight"

MAX_FREQUENCY = 1e6
"""Angles per position; unscaled ones are at most 1."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """How positions are stretched; the fields are metadata keys under `rope.scaling`."""

    factor: float
    original_context_length: int
    ext_factor: float
    beta_fast: float
    beta_slow: float
    log_multiplier: float


def read_rope(
    keys: ArchitectureKeys,
    tensors: TensorTable,
    pairing: RopePairing,
    *,
    head_length: int,
    context_length: int,
    used_context: int | None = None,
    base: float = 10000.0,
    beta_fast: float = 32.0,
    window: bool = False,
) -> Rope:
    """Read the rotary positions of a model; `base` and `beta_fast` are the architecture's defaults.

    Of the context the model was made for, `used_context` will be used at most, None for all of it. With
    `window` these are of layers that may have a base and a number of turning elements of their own.
    """
    dimensions, base = _turning(keys, head_length, base, window=window)
    frequencies = unscaled_frequencies(dimensions, base)
    scaling = _read_scaling(keys, context_length, beta_fast)
    is_long = (used_context or context_length) > scaling.original_context_length
    frequencies = _divided(frequencies, tensors, is_long)
    frequencies, magnitude = _scale_of(keys)(scaling, frequencies, base)
    magnitude *= keys.number("rope.scaling.attn_factor", 1.0)
    if not np.all(np.abs(frequencies) <= MAX_FREQUENCY):
        raise keys.error("rope.scaling.factor", "a factor that leaves angles computable", scaling.factor)
    return Rope(pairing, dimensions, tuple(frequencies.tolist()), magnitude)


def _turning(keys: ArchitectureKeys, head_length: int, base: float, *, window: bool) -> tuple[int, float]:
    """Read how many elements of a head turn, and the base of their frequencies."""
    dimensions, base = read_dimensions(keys, head_length), read_base(keys, "rope.freq_base", base)
    if not window:
        return dimensions, base
    dimensions = read_dimensions(keys, head_length, "rope.dimension_count_swa", dimensions)
    return dimensions, read_base(keys, "rope.freq_base_swa", base)


def plain_rope(pairing: RopePairing, dimensions: int, base: float) -> Rope:
    """Return rotary positions without any scaling."""
    return Rope(pairing, dimensions, tuple(unscaled_frequencies(dimensions, base).tolist()))


def growing(keys: ArchitectureKeys, length: int, growth: float, growth_length: int, first: int = 0) -> Rope:
    """Return a turn by nothing, which only multiplies heads of a length by what grows with the position."""
    if length % 2:
        raise keys.error("attention.key_length", "an even number", length)
    still = (0.0,) * (length // 2)
    return Rope(
        RopePairing.ADJACENT, length, still, growth=growth, growth_length=growth_length, growth_first=first
    )


def read_dimensions(
    keys: ArchitectureKeys, head_length: int, key: str = "rope.dimension_count", default: int | None = None
) -> int:
    """Read how many elements of a head turn; all by default."""
    dimensions = keys.stated_count(key, default or head_length, most=head_length)
    if dimensions % 2:
        raise keys.error(key, "an even number", dimensions)
    return dimensions


def read_base(keys: ArchitectureKeys, key: str, default: float) -> float:
    """Read the base of the frequencies."""
    base = keys.stated_number(key, default)
    if base <= 1:
        raise keys.error(key, "a number greater than 1", base)
    return base


def unscaled_frequencies(dimensions: int, base: float) -> Frequencies:
    """Return base^(-2i/dimensions) for every pair i, float64 [dimensions/2]."""
    return np.power(base, -np.arange(0, dimensions, 2, dtype=np.float64) / dimensions)


def _divided(frequencies: Frequencies, tensors: TensorTable, is_long: bool) -> Frequencies:
    """Divide by the tensor that the file has for this; at most one of them counts."""
    names = (DIVISORS, LONG_DIVISORS if is_long else SHORT_DIVISORS)
    for name in (SHORT_DIVISORS, LONG_DIVISORS):
        tensors.ignore(name)
    divisors = next((name for name in names if name in tensors), None)
    if divisors is None:
        return frequencies
    return frequencies / np.array(tensors.values(divisors, len(frequencies), nonzero=True), dtype=np.float64)


def _scale_of(keys: ArchitectureKeys) -> Callable[[Scaling, Frequencies, float], tuple[Frequencies, float]]:
    kind = keys.string("rope.scaling.type", "linear")
    if kind not in _SCALINGS:
        raise keys.error("rope.scaling.type", " or ".join(map(repr, _SCALINGS)), repr(kind))
    return _SCALINGS[kind]


def _read_scaling(keys: ArchitectureKeys, context_length: int, beta_fast: float) -> Scaling:
    return Scaling(
        # `rope.scale_linear` is how files from 2023 say it
        factor=keys.number("rope.scaling.factor", keys.number("rope.scale_linear", 1.0)),
        original_context_length=keys.count(
            "rope.scaling.original_context_length", context_length, most=MAX_POSITION
        ),
        ext_factor=keys.number("rope.scaling.yarn_ext_factor", 1.0),
        beta_fast=keys.number("rope.scaling.yarn_beta_fast", beta_fast),
        beta_slow=keys.number("rope.scaling.yarn_beta_slow", 1.0),
        log_multiplier=keys.number("rope.scaling.yarn_log_multiplier", 0.0),
    )


def _none(scaling: Scaling, frequencies: Frequencies, base: float) -> tuple[Frequencies, float]:
    return frequencies, 1.0


def _linear(scaling: Scaling, frequencies: Frequencies, base: float) -> tuple[Frequencies, float]:
    return frequencies / scaling.factor, 1.0


def _yarn(scaling: Scaling, frequencies: Frequencies, base: float) -> tuple[Frequencies, float]:
    kept = _yarn_ramp(scaling, len(frequencies), base) * scaling.ext_factor
    mixed = frequencies / scaling.factor * (1 - kept) + frequencies * kept
    magnitude = _yarn_magnitude(scaling.factor, 1.0)
    if scaling.log_multiplier:
        magnitude /= _yarn_magnitude(scaling.factor, scaling.log_multiplier)
    return mixed, magnitude


def _yarn_ramp(scaling: Scaling, pairs: int, base: float) -> Frequencies:
    """Return how much of each unscaled frequency is kept: 1 for the fast, falling to 0 for the slow."""
    last = 2 * pairs - 1
    low = min(max(math.floor(_yarn_pair(scaling, scaling.beta_fast, pairs, base)), 0), last)
    high = min(max(math.ceil(_yarn_pair(scaling, scaling.beta_slow, pairs, base)), 0), last)
    ramp = (np.arange(pairs) - low) / max(0.001, high - low)
    return 1 - np.clip(ramp, 0.0, 1.0)


def _yarn_pair(scaling: Scaling, turns: float, pairs: int, base: float) -> float:
    """Return the pair, as a real number, that turns so many times around within the original context."""
    return pairs * math.log(scaling.original_context_length / (turns * 2 * math.pi)) / math.log(base)


def _yarn_magnitude(factor: float, multiplier: float) -> float:
    return 0.1 * multiplier * math.log(factor) + 1.0 if factor > 1.0 else 1.0


_SCALINGS: Mapping[str, Callable[[Scaling, Frequencies, float], tuple[Frequencies, float]]] = {
    "none": _none,
    "linear": _linear,
    "longrope": _linear,
    "yarn": _yarn,
}
