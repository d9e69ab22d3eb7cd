"""Names in a sentence."""

from collections.abc import Iterable

_MOST_NAMES = 40


def enumerated(names: Iterable[str]) -> str:
    """Return the first 40 names with commas, and how many more there are; `none` where there is none."""
    shown = [printable(name) for name in names]
    more = f" and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    return (", ".join(shown[:_MOST_NAMES]) or "none") + more


def printable(name: str) -> str:
    """Return a name as it is, or as Python writes it where it has line breaks or what cannot be seen."""
    return name if name.isprintable() else repr(name)
