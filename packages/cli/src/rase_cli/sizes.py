"""Amounts of memory on the command line."""

import re

import click

_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_PATTERN = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt]?)b?", re.IGNORECASE | re.ASCII)


def size(text: str) -> int:
    """Return a number of bytes from one of bytes, kB, MB, GB or TB (powers of 1000), as in `1.5GB`.

    Raises click.BadParameter.
    """
    found = _PATTERN.fullmatch(text.strip())
    nbytes = int(float(found[1]) * _FACTORS[found[2].lower()]) if found is not None else 0
    if not nbytes:
        raise click.BadParameter(f"{text!r} is no amount of memory, such as 512MB or 4GB")
    return nbytes
