"""How much of a pattern or grammar may repeat or be left out, which is what makes following it dear."""

import re

MOST_REPETITIONS = 4000
"""Of one format: the time that they take grows with their square, and reaches a quarter of a second."""

_SIGNS = re.compile(r"[*+?{]|[(|]\s*\||\|\s*\)")
"""What repeats, and ways that are empty."""


def repetitions(text: str) -> int:
    """Return how many signs of repetition a pattern or grammar has, also in its texts and classes."""
    return sum(1 for _ in _SIGNS.finditer(text))


def excess_of(count: int) -> str | None:
    """Return what is wrong with so many repetitions; None where nothing is."""
    if count <= MOST_REPETITIONS:
        return None
    return f"it has {count} repetitions; at most {MOST_REPETITIONS} are allowed"
