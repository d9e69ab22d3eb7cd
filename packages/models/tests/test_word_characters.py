"""The kinds of characters in words are those that the library gives."""

import random
import runpy
from pathlib import Path

from rase_models.tokenizers.character_kinds import CODE_POINTS
from rase_models.tokenizers.word_characters import word_kinds

SCRIPT = runpy.run_path(str(Path(__file__).parent / "make_word_characters.py"))


def test_characters_are_of_the_kinds_that_the_library_knows() -> None:
    full, all_codes = [*range(0xD800), *range(0xE000, 0x34000)], range(0xE000, CODE_POINTS)
    chance = random.Random(4)
    sample = sorted({*range(0x500), *chance.sample(full, 2000), *chance.sample(all_codes, 1000)})
    assert word_kinds()[sample].tolist() == SCRIPT["kinds_of"](sample)
