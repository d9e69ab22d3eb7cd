"""`rase chat` and `rase generate` with the real small model."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rase_cli.demo import DEMO_ID, FIRST_MODEL

Run = Callable[..., subprocess.CompletedProcess[str]]

QUESTION = "What is the capital of France?"
SHORT = ("--max-tokens", "4", "--temperature", "0")


def succeed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("smollm2_path")
def test_the_first_command_registers_the_demo_model_and_answers_with_paris(
    rase_process: Run, home: dict[str, str]
) -> None:
    del home["RASE_STORE"]
    rase = rase_process
    done = rase("chat", QUESTION, "--max-tokens", "16")
    assert "Paris" in succeed(done)
    assert done.stdout.endswith("\n")
    assert f"registering the demo model {DEMO_ID}" in done.stderr
    again = rase("chat", QUESTION, "--max-tokens", "16")
    assert succeed(again) == done.stdout
    assert "registering" not in again.stderr
    assert succeed(rase("model", "list")).startswith(f"{DEMO_ID}\tllama\t")


def test_piped_input_is_the_prompt(rase: Run, smol: str) -> None:
    asked = succeed(rase("chat", smol, QUESTION, *SHORT))
    assert succeed(rase("chat", smol, *SHORT, input=QUESTION + "\n")) == asked
    assert succeed(rase("chat", "-m", smol, "-", *SHORT, input=QUESTION)) == asked


def test_the_only_model_is_used_and_named(rase: Run, smol: str) -> None:
    done = rase("chat", QUESTION, *SHORT)
    assert succeed(done)
    assert "using smol" in done.stderr


@pytest.mark.usefixtures("smol")
def test_of_several_models_one_must_be_named(rase: Run, smollm2_path: Path) -> None:
    succeed(rase("model", "import", str(smollm2_path), "--id", DEMO_ID))
    assert "using smol" in rase("chat", QUESTION, *SHORT).stderr
    succeed(rase("model", "import", str(smollm2_path), "--id", "third"))
    done = rase("chat", QUESTION, *SHORT)
    assert done.returncode == 2
    assert f"smol, {DEMO_ID}, third" in done.stderr
    assert "using third" in rase("chat", QUESTION, *SHORT, RASE_MODEL="third").stderr
    for typed in (("chat", "smol", QUESTION), ("chat", "-m", "smol", QUESTION)):
        assert succeed(rase(*typed, *SHORT, RASE_MODEL="nobody"))
    assert succeed(rase("chat", "smol", *SHORT, input=QUESTION, RASE_MODEL="nobody"))


def test_a_demo_model_that_has_moved_is_registered_again(
    rase: Run, smollm2_path: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "old.gguf"
    moved.symlink_to(smollm2_path)
    succeed(rase("model", "import", str(moved), "--id", DEMO_ID))
    moved.unlink()
    assert succeed(rase("chat", QUESTION, *SHORT))


def test_an_answer_is_the_same_in_every_process(rase: Run, smol: str) -> None:
    sampled = ("--seed", "3", "--temperature", "1.2", "--max-tokens", "8")
    first = succeed(rase("chat", smol, QUESTION, *sampled))
    assert succeed(rase("chat", smol, QUESTION, *sampled, "--threads", "1")) == first


def test_a_completion_is_exact_and_notes_go_elsewhere(rase: Run, smol: str, tmp_path: Path) -> None:
    done = rase("generate", smol, "The capital of France is", *SHORT, "--stats")
    assert succeed(done).startswith(" Paris")
    assert "stopped after 4 tokens" in done.stderr
    assert "/s" in done.stderr
    (tmp_path / "prompt.txt").write_text("The capital of France is\n", encoding="utf-8")
    assert (
        succeed(rase("generate", smol, "--prompt-file", str(tmp_path / "prompt.txt"), *SHORT)) == done.stdout
    )


def test_words_can_be_banned(rase: Run, smol: str) -> None:
    assert "Paris" not in succeed(
        rase("generate", smol, "The capital of France is", *SHORT, "--bad-words", "Paris")
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("chat", "smol", "hi", "--top-p", "2"), "top_p"),
        (("chat", "smol", "hi", "--temperature", "-1"), "temperature"),
        (("chat", "smol", "hi", "--max-tokens", "-1"), "max_tokens"),
        (("chat", "smol", "hi", "--seed", "x"), "seed"),
        (("generate", "smol"), "standard input is empty"),
        (("generate",), "MODEL"),
        (("chat", "a", "b", "c"), "unexpected extra argument"),
        (("--threads", "0", "chat"), "threads"),
        (("--threads", "100000", "chat"), "the most that are of use here"),
        (("chat", "--threads-prefill", "100000"), "the most that are of use here"),
        (("--device", "abacus", "chat"), "abacus"),
    ],
)
@pytest.mark.usefixtures("smol")
def test_wrong_usage_names_what_is_wrong(rase: Run, arguments: tuple[str, ...], named: str) -> None:
    done = rase(*arguments)
    assert done.returncode == 2, done.stderr
    assert named in done.stderr
    assert done.stdout == ""


def test_an_unknown_model_is_an_error_that_names_the_known_ones(rase: Run, smol: str) -> None:
    done = rase("chat", "nobody", "hi")
    assert done.returncode == 3
    assert "registered: smol" in done.stderr


def test_a_prompt_that_does_not_fit_is_refused_with_numbers(rase: Run, smol: str) -> None:
    done = rase("generate", smol, input="word " * 9000)
    assert done.returncode == 1
    assert "8192" in done.stderr


WITHOUT_DEMO = "from rase_cli import demo, main; demo.DEMO_PACKAGE = 'no_such_package_here'; main.main()"


def test_without_the_demo_model_the_command_to_get_one_is_shown(home: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DEMO, "chat", QUESTION],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        env=home,
        check=False,
    )
    assert done.returncode == 1
    assert FIRST_MODEL.command in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a child")
def test_an_interrupt_keeps_what_was_said_and_exits_130(smol: str, home: dict[str, str]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "rase_cli", "chat", smol, "Tell me a long story.", "--max-tokens", "2000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=home,
    )
    assert child.stdout is not None
    assert child.stdout.read(1)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert b"Traceback" not in errors
    assert b"[stopped]" in errors


STARTING = "print('up', flush=True); from rase_cli.main import main; main()"


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a child")
@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.3, 0.6])
def test_an_interrupt_at_any_time_exits_130_without_a_traceback(
    smol: str, home: dict[str, str], seconds: float
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", STARTING, "chat", smol, "Tell me a long story.", "--max-tokens", "4000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=home,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    time.sleep(0.05 + seconds)  # main is in charge from here on
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert b"Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("chat", ""), 2, "PROMPT is empty"),
        (("chat", "smol", ""), 2, "PROMPT is empty"),
        (("chat", "--model", "smol", ""), 2, "PROMPT is empty"),
        (("generate", "smol", ""), 2, "PROMPT is empty"),
        (("render", "smol", ""), 2, "PROMPT is empty"),
        (("chat", "", "Hello"), 2, "invalid model id ''"),
        (("chat", "--model", "", "Hello"), 2, "invalid model id ''"),
        (("generate", "", "Hello"), 2, "invalid model id ''"),
        (("render", "", "Hello"), 2, "invalid model id ''"),
    ],
)
def test_an_empty_argument_is_an_error_that_names_it(
    rase: Run, smol: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = rase(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
