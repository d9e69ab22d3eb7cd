"""How far a batch is, on stderr."""

import io
import re
import sys
import time

import pytest
from rase_cli import batch_progress
from rase_cli.batch_progress import BatchProgress, Meter
from rase_models.batch import Summary


class FakeTerminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal_tells_tasks_and_speed_and_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := FakeTerminal())
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with BatchProgress() as progress:
        for answered in range(4):
            progress(Summary(3, answered=answered), lambda: 70)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "3/3" in shown and "tokens/s" in shown
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is empty again


def test_elsewhere_a_line_comes_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with BatchProgress() as progress:
        progress(Summary(9, answered=1), lambda: 10)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(batch_progress, "LINE_SECONDS", 0)
        progress(Summary(9, earlier=2, answered=2), lambda: 10)
    assert re.fullmatch(r"4 of 9 done, \d+ tokens/s\n", capsys.readouterr().err)


def test_the_speed_is_that_of_the_last_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now, meter = 100.0, Meter()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for second in range(20):
        now, tokens = 100.0 + second, 10 * second if second < 10 else 100 + 50 * (second - 10)
        meter.tokens = lambda tokens=tokens: tokens  # type: ignore[misc]
        speed = meter.rate()
        if second == 8:
            assert speed == pytest.approx(10)
    assert speed == pytest.approx(50)
