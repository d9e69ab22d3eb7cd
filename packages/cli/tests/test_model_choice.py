"""Model or prompt?"""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import click
import pytest
from rase_cli.model_choice import refuse_file, split_arguments
from rase_core.errors import ModelNotFound

KNOWN = ["smollm2-135m-instruct", "llama"]


@pytest.mark.parametrize(
    ("first", "second", "option", "expected"),
    [
        (None, None, None, (None, None)),
        ("llama", None, None, ("llama", None)),
        ("What is a llama?", None, None, (None, "What is a llama?")),
        ("hello!", None, None, (None, "hello!")),
        ("Hello\nthere", None, None, (None, "Hello\nthere")),
        ("你好", None, None, (None, "你好")),
        ("-", None, None, (None, "-")),
        ("hello", None, "llama", ("llama", "hello")),
        ("llama", "hi", None, ("llama", "hi")),
        ("nobody", "hi", None, ("nobody", "hi")),
        ("llama", None, "llama", ("llama", "llama")),
        (None, None, "llama", ("llama", None)),
    ],
)
def test_a_lone_argument_is_a_model_if_it_is_registered(
    first: str | None, second: str | None, option: str | None, expected: tuple[str | None, str | None]
) -> None:
    assert split_arguments(first, second, option, KNOWN) == expected


def test_a_file_in_the_place_of_a_model_is_to_be_registered_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("here.gguf", "llama"):
        (tmp_path / name).touch()
    for path in ("here.gguf", "./llama", str(tmp_path / "here.gguf")):
        with pytest.raises(click.UsageError, match=r"is a file: register it with `rase model import"):
            refuse_file(path, KNOWN)
    for name in ("llama", "gone.gguf", str(tmp_path), "a" * 5000 + ".gguf", "null\0.gguf"):
        refuse_file(name, KNOWN)
    refuse_file("here.gguf", ["here.gguf"])


@pytest.mark.parametrize("command", ["chat", "generate"])
def test_the_path_of_a_model_is_refused_with_what_to_do(
    rase: Callable[..., "CompletedProcess[str]"], tmp_path: Path, command: str
) -> None:
    weights = tmp_path / "w.gguf"
    weights.touch()
    refused = rase(command, str(weights), "hi")
    assert refused.returncode == 2
    assert f"register it with `rase model import {weights} --id ID`" in refused.stderr


def test_two_models_are_refused() -> None:
    with pytest.raises(click.UsageError, match="the model once"):
        split_arguments("llama", "hi", "llama", KNOWN)


def test_a_misspelt_model_is_not_taken_for_a_prompt() -> None:
    with pytest.raises(click.UsageError, match="did you mean 'smollm2-135m-instruct'"):
        split_arguments("smollm2-135m-instrct", None, None, KNOWN)


@pytest.mark.parametrize("word", ["qwen3", "hello", "qwen3:8b", "Qwen/Qwen3-8B-GGUF:Q4_K_M"])
def test_a_word_that_could_be_a_model_is_not_taken_for_a_prompt(word: str) -> None:
    with pytest.raises(ModelNotFound, match="registered: smollm2") as caught:
        split_arguments(word, None, None, KNOWN)
    assert f"`rase chat --model ID {word}`" in str(caught.value.advice)


def test_a_file_is_not_taken_for_a_prompt() -> None:
    with pytest.raises(click.UsageError, match="rase model import"):
        split_arguments("./model.GGUF", None, None, KNOWN)
