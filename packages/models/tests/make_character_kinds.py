"""Prints the runs of `rase_models.tokenizers.character_kinds`, made by asking the library `tokenizers`."""

import sys
import textwrap

import numpy as np
from rase_models.tokenizers.character_kinds import CATEGORIES, CODE_POINTS, HAN, encoded_runs
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

CHARACTERS = "".join(chr(code) for code in range(CODE_POINTS) if not 0xD800 <= code < 0xE000)
CODES = np.array([ord(character) for character in CHARACTERS])


def kinds() -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Return the kind of each code point, uint8 [0x110000]."""
    found = np.zeros(CODE_POINTS, np.uint8)
    for number, name in enumerate(CATEGORIES):
        if name:
            found[_having(name)] = number
    found[_having("Han")] += HAN
    return found


def _having(name: str) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return the code points that have a property."""
    runs = Split(Regex(rf"[^\p{{{name}}}]+"), "removed").pre_tokenize_str(CHARACTERS)
    return np.concatenate([CODES[start:end] for _, (start, end) in runs])


def main() -> None:
    """Print the lines."""
    sys.stdout.write("\n".join(textwrap.wrap(encoded_runs(kinds()), 106)) + "\n")


if __name__ == "__main__":
    main()
