"""Rotary positions: what heads are turned by."""

from dataclasses import dataclass
from enum import Enum


class RopePairing(Enum):
    """Which elements of a head are rotated together."""

    ADJACENT = "adjacent"
    """Elements 2i and 2i+1 (llama)."""
    HALVES = "halves"
    """Elements i and i + dimensions/2 (neox: qwen, gemma)."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions of one kind of layer.

    Pair i of a head at position p turns by the angle a = p * frequencies[i]: (x, y) becomes
    (x cos a - y sin a, x sin a + y cos a) * magnitude. Only the first `dimensions` elements of a head
    turn, the others stay as they are; there are dimensions / 2 frequencies. All scaling (linear, llama3,
    YaRN, factor tensors of the file) is already in them.

    With a `growth`, the magnitude is multiplied by 1 + growth * ln(1 + floor((p + growth_first) /
    growth_length)).
    """

    pairing: RopePairing
    dimensions: int
    frequencies: tuple[float, ...]
    magnitude: float = 1.0
    growth: float = 0.0
    growth_length: int = 1
    growth_first: int = 0
