"""Prints the runs of `rase_models.tokenizers.word_characters`, made by asking the library `tokenizers`."""

import sys
import textwrap
import unicodedata
from collections.abc import Sequence

import numpy as np
from rase_models.tokenizers.character_kinds import CODE_POINTS, encoded_runs
from rase_models.tokenizers.word_characters import ASKS, GOES, IS_SPACE, IS_WORD, STAYS, asked
from tokenizers import Tokenizer, models
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

ALIKE = (range(0x34000, 0xE0000), range(0xE1000, 0xF0000), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
"""Code points without characters, each like the first of them."""


def libraries() -> list[Tokenizer]:
    """Return one for each way that the settings may be."""
    found = []
    for lowercase, strips in ((True, True), (False, False), (True, False), (False, True)):
        library = Tokenizer(models.BPE())
        library.normalizer = BertNormalizer(lowercase=lowercase, strip_accents=strips)
        library.pre_tokenizer = BertPreTokenizer()
        found.append(library)
    return found


def kinds() -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Return the kind of each code point, uint8 [0x110000]."""
    found = np.zeros(CODE_POINTS, np.uint8)
    others = set(range(CODE_POINTS)).difference(range(0xD800, 0xE000), *ALIKE)
    codes = sorted(others | {plane.start for plane in ALIKE})
    found[codes] = kinds_of(codes)
    for plane in ALIKE:
        found[plane.start : plane.stop] = found[plane.start]
    return found


def kinds_of(codes: Sequence[int]) -> list[int]:
    """Return the kind of each of some code points."""
    ways = zip(*(asked(library, codes) for library in libraries()), strict=True)
    return [_kind(chr(code), way) for code, way in zip(codes, ways, strict=True)]


def _kind(character: str, way: Sequence[str]) -> int:
    if len(set(way)) > 1 or unicodedata.combining(character):
        return ASKS
    return {character: STAYS, "": GOES, " ": IS_SPACE, f" {character} ": IS_WORD}.get(way[0], ASKS)


def main() -> None:
    """Print the lines."""
    sys.stdout.write("\n".join(textwrap.wrap(encoded_runs(kinds()), 106)) + "\n")


if __name__ == "__main__":
    main()
