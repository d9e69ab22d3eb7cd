"""An interactive chat on a pseudo-terminal."""

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

pty = pytest.importorskip("pty", reason="needs pseudo-terminals")

PROMPT = "> "

Run = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM = "from rase_cli.main import main; main()"
HIDE_DEMO = f"from rase_cli import demo; demo.DEMO_PACKAGE = 'no_such_package_here'; {PROGRAM}"


class Terminal:
    """A program on a pseudo-terminal: what it wrote, and a keyboard."""

    def __init__(self, arguments: list[str], environment: dict[str, str], program: str = PROGRAM) -> None:
        self.screen = ""
        self.child, self.descriptor = pty.fork()
        if self.child == 0:
            os.execve(sys.executable, [sys.executable, "-c", program, *arguments], environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)

    def type(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def wait_for(self, pattern: str, seconds: float = 60) -> str:
        """Return what was written up to the pattern, and forget it."""
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self.screen)) is None:
            assert self._read(end - time.monotonic()), self.screen
        before, self.screen = self.screen[: found.end()], self.screen[found.end() :]
        return before

    def exit_code(self) -> int:
        while self._read(60):
            pass
        _, status = os.waitpid(self.child, 0)
        return os.waitstatus_to_exitcode(status)

    def _read(self, seconds: float) -> bool:
        """Read what there is; False at the end, and when nothing comes in time."""
        if not select.select([self.descriptor], [], [], max(seconds, 0))[0]:
            return False
        try:
            data = os.read(self.descriptor, 4096)
        except OSError:  # Linux reports the end of a terminal as an error
            return False
        self.screen += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)


@pytest.fixture
def terminal(smol: str, home: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        opened.append(Terminal([*arguments], home | {"TERM": "dumb", "COLUMNS": "100"}))
        return opened[-1]

    yield start
    for one in opened:
        one.__exit__(None, None, None)


def test_two_turns_a_stopped_answer_and_the_end(terminal: Callable[..., Terminal]) -> None:
    screen = terminal("chat", "smol", "--temperature", "0", "--max-tokens", "300")
    screen.wait_for("Ctrl-D to leave\n")
    screen.wait_for(PROMPT)
    screen.type("What is the capital of France?\n")
    assert "Paris" in screen.wait_for("\n" + PROMPT)
    screen.type("Count from 1 to 1000, one number on each line.\n")
    screen.wait_for(r"each line\.\n.")
    screen.type("\x03")
    screen.wait_for(r"\[stopped\]")
    screen.wait_for(PROMPT)
    screen.type("/help\n")
    screen.wait_for("/clear")
    screen.wait_for(PROMPT)
    screen.type("/exit\n")
    assert screen.exit_code() == 0


def test_the_end_of_input_leaves_and_an_interrupt_at_the_prompt_does_not(
    terminal: Callable[..., Terminal],
) -> None:
    screen = terminal("chat", "--model", "smol")
    screen.wait_for(PROMPT)
    time.sleep(0.5)  # Python loses an interrupt that comes between writing the prompt and waiting for keys
    screen.type("half a li\x03")
    screen.wait_for("to leave]")
    screen.wait_for(PROMPT)
    screen.type("/fly\n")
    screen.wait_for("unknown command")
    screen.wait_for(PROMPT)
    screen.type("/clear\n")
    screen.wait_for("forgotten")
    screen.wait_for(PROMPT)
    screen.type("\x04")
    assert screen.exit_code() == 0


def test_a_prompt_that_does_not_fit_leaves_the_conversation_going(
    terminal: Callable[..., Terminal], rase: Run, smollm2_path: Path
) -> None:
    done = rase("model", "import", str(smollm2_path), "--id", "short", "--context-length", "64")
    assert done.returncode == 0, done.stderr
    screen = terminal("chat", "short", "--max-tokens", "2", "--stats")
    screen.wait_for(PROMPT)
    screen.type("no " * 100 + "\n")
    screen.wait_for("maximum context length is 64")
    screen.wait_for(PROMPT)
    screen.type("Hi\n")
    screen.wait_for("answer 2 tokens")
    screen.wait_for(PROMPT)
    screen.type("/exit\n")
    assert screen.exit_code() == 0


def test_without_a_demo_model_a_person_is_asked_and_may_say_no(home: dict[str, str]) -> None:
    with Terminal(["chat"], home | {"TERM": "dumb"}, HIDE_DEMO) as screen:
        screen.wait_for(r"\[y/N\]: ")
        screen.type("n\n")
        screen.wait_for("rase model pull --repo")
        assert screen.exit_code() == 1
