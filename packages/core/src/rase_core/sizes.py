"""Amounts of memory in words."""

UNITS = {"kB": 1000, "MB": 1000**2}
"""Larger sizes stay in MB: those that an error compares are often close to each other."""
_FEW = 10


def size_text(nbytes: int) -> str:
    """Write a number of bytes, as in `740 MB`, `1.5 kB` or `512 bytes` (powers of 1000)."""
    for unit, factor in reversed(UNITS.items()):
        if nbytes >= factor:
            return f"{_number(nbytes / factor)} {unit}"
    return "1 byte" if nbytes == 1 else f"{nbytes} bytes"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= _FEW else f"{value:.1f}".removesuffix(".0")
