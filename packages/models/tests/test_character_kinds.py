"""The kinds of characters are those that the library's expressions tell apart."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from rase_models.tokenizers.character_kinds import CODE_POINTS, SPACES, encoded_runs, kind_runs
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

SCRIPT = runpy.run_path(str(Path(__file__).parent / "make_character_kinds.py"))


@pytest.mark.slow
def test_every_code_point_is_of_the_kind_that_the_library_knows() -> None:
    starts, kinds = kind_runs()
    lengths = np.diff(starts, append=np.uint32(CODE_POINTS))
    assert np.array_equal(np.repeat(kinds, lengths), SCRIPT["kinds"]())


def test_white_space_is_that_of_the_library() -> None:
    found = Split(Regex(r"\S+"), "removed").pre_tokenize_str(SCRIPT["CHARACTERS"])
    assert "".join(part for part, _ in found) == SPACES


def test_runs_are_written_as_they_are_read() -> None:
    kinds = np.zeros(CODE_POINTS, np.uint8)
    kinds[5:4000] = 21
    kinds[70_000:70_001] = 3
    assert len(encoded_runs(kinds)) < 100
