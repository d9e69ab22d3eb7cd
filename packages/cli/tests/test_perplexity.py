"""`rase perplexity`"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

TEXT = "The river runs to the sea, and the sea gives it back as rain. " * 20


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    return file


def test_a_repetitive_text_is_predicted_well(rase: Run, smollm2_path: Path, text: Path) -> None:
    done = rase("perplexity", str(smollm2_path), str(text), "--window", "64", "--json")
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    figures = json.loads(line)
    assert list(figures) == ["perplexity", "error", "windows", "predictions"]
    assert 1 < figures["perplexity"] < 3
    assert figures["predictions"] == 31 * figures["windows"]


def test_a_registered_model_will_do(rase: Run, smol: str, text: Path) -> None:
    done = rase("perplexity", smol, str(text), "--window", "64", "--threads", "1", "--threads-prefill", "2")
    assert done.returncode == 0, done.stderr
    assert dict(line.split("\t") for line in done.stdout.splitlines())["windows"]


def test_a_short_text_is_refused(rase: Run, smol: str, text: Path) -> None:
    done = rase("perplexity", smol, str(text), "--window", "512")
    assert done.returncode == 2
    assert "at least two windows" in done.stderr


def test_a_missing_text_is_named(rase: Run, smol: str) -> None:
    done = rase("perplexity", smol, "nowhere.txt")
    assert done.returncode != 0
    assert "nowhere.txt" in done.stderr
