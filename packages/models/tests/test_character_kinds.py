"""The kinds of characters are those that the library's expressions tell apart."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rase_models.tokenizers.character_kinds import CODE_POINTS, SPACES, encoded_runs, kind_runs
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """Return what the script that made the kinds holds."""
    return runpy.run_path(str(Path(__file__).parent / "make_character_kinds.py"))


@pytest.mark.slow
def test_every_code_point_is_of_the_kind_that_the_library_knows(script: dict[str, Any]) -> None:
    starts, kinds = kind_runs()
    lengths = np.diff(starts, append=np.uint32(CODE_POINTS))
    assert np.array_equal(np.repeat(kinds, lengths), script["kinds"]())


def test_white_space_is_that_of_the_library(script: dict[str, Any]) -> None:
    found = Split(Regex(r"\S+"), "removed").pre_tokenize_str(script["CHARACTERS"])
    assert "".join(part for part, _ in found) == SPACES


def test_runs_are_written_as_they_are_read() -> None:
    kinds = np.zeros(CODE_POINTS, np.uint8)
    kinds[5:4000] = 21
    kinds[70_000:70_001] = 3
    assert len(encoded_runs(kinds)) < 100
