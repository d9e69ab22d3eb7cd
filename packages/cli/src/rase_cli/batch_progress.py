"""How far a batch is, on stderr: a moving bar with the speed on a terminal, a line now and then elsewhere."""

import sys
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rase_cli.output import note
from rase_cli.terminal import is_animated

if TYPE_CHECKING:
    from rase_models.batch import Summary
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

LINE_SECONDS = 30.0
"""How often a line tells how far it is, where nothing can move."""

_WINDOW_SECONDS = 5.0


class Meter:
    """Tokens a second, over the last seconds."""

    def __init__(self) -> None:
        self.tokens: Callable[[], int] = lambda: 0
        self._samples: deque[tuple[float, int]] = deque()

    def rate(self) -> float:
        """Return the speed now."""
        now, tokens = time.monotonic(), self.tokens()
        self._samples.append((now, tokens))
        while len(self._samples) > 2 and now - self._samples[1][0] > _WINDOW_SECONDS:
            self._samples.popleft()
        since, before = self._samples[0]
        return (tokens - before) / max(now - since, 1e-3)


class BatchProgress:
    """Hears of a batch's results. A context manager that takes its bar away at the end."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        self._told = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, summary: "Summary", tokens: Callable[[], int]) -> None:
        """Show how far it is."""
        self._meter.tokens = tokens
        if is_animated(sys.stderr):
            if summary.answered + summary.failed:  # a model that loads has a bar of its own
                self._move(summary)
        elif time.monotonic() - self._told >= LINE_SECONDS:
            self._told = time.monotonic()
            note(f"{summary.done} of {summary.total} done, {self._meter.rate():.0f} tokens/s")

    def _move(self, summary: "Summary") -> None:
        if self._bars is None or self._task is None:
            self._bars = _make_bars(self._meter)
            self._bars.start()
            self._task = self._bars.add_task("tasks", total=summary.total)
        self._bars.update(self._task, completed=summary.done)


def _make_bars(meter: Meter) -> "Bars":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class SpeedColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{meter.rate():.0f} tokens/s")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        SpeedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(file=sys.stderr), transient=True)
