"""Reports on long work."""

import io
import sys
import threading

import pytest
from rase_cli.progress import Progress
from rase_core.progress import ProgressEvent, ProgressPhase
from rase_core.testing_waits import wait_for


class FakeTerminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def event(done: int, total: int | None = 10, phase: ProgressPhase = ProgressPhase.HASH) -> ProgressEvent:
    return ProgressEvent(phase, "/models/some.gguf", done, total)


def test_quick_work_is_not_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        for done in range(11):
            progress(event(done))
    assert capsys.readouterr().err == ""


def test_slow_work_is_one_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(patience=0) as progress:
        for done in range(11):
            progress(event(done))
        progress(event(1, None, ProgressPhase.COMPILE))
    assert capsys.readouterr().err == (
        "hashing some.gguf ...\ncompiling kernels, once for this machine ...\n"
    )


def test_bars_on_a_terminal_vanish_when_the_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := FakeTerminal())
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with Progress(patience=0) as progress:
        for done in range(11):
            progress(event(done))
    assert "hashing some.gguf" in terminal.getvalue()
    assert "\x1b[?25h" in terminal.getvalue()  # the cursor is shown again


def test_an_interrupted_step_leaves_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := FakeTerminal())
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt), Progress(patience=0) as progress:
        progress(event(3))
        raise KeyboardInterrupt
    wait_for(lambda: threading.active_count() <= before)
    assert "hashing" in terminal.getvalue()


def test_the_next_event_after_a_stop_ends_the_work() -> None:
    stop = threading.Event()
    with Progress(stop) as progress:
        progress(event(1))
        stop.set()
        with pytest.raises(KeyboardInterrupt):
            progress(event(2))


def test_a_terminal_without_a_movable_cursor_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := FakeTerminal())
    monkeypatch.setenv("TERM", "dumb")
    with Progress(patience=0) as progress:
        progress(event(1))
        progress(event(2))
    assert terminal.getvalue() == "hashing some.gguf ...\n"
