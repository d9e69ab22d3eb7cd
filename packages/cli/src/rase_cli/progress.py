"""What long work is doing: moving bars on a terminal, a line for each slow step elsewhere. All on stderr."""

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rase_cli.output import note
from rase_cli.terminal import is_animated, one_line

if TYPE_CHECKING:
    from rase_core.progress import ProgressEvent
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

TITLES = {
    "hash": "hashing {file}",
    "download": "downloading {file}",
    "load": "loading {file}",
    "compile": "compiling kernels, once for this machine",
}

PATIENCE_SECONDS = 0.4
"""Work that is over sooner is not mentioned."""

Step = tuple[str, str]


class Progress:
    """The engine's progress callback. Thread-safe; a context manager that clears the bars at its end.

    A bar appears when its step has lasted for `patience` seconds, and all bars vanish when the last step is
    done, so nothing moves any more when an answer begins. Once `stop` is set, the next event raises
    KeyboardInterrupt.
    """

    def __init__(self, stop: threading.Event | None = None, *, patience: float = PATIENCE_SECONDS) -> None:
        self._stop, self._patience = stop, patience
        self._lock = threading.Lock()
        self._started: dict[Step, float] = {}
        self._mentioned: set[Step] = set()
        self._tasks: dict[Step, TaskID] = {}
        self._bars: Bars | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._clear()

    def __call__(self, event: "ProgressEvent") -> None:
        """Take one event from the engine."""
        if self._stop is not None and self._stop.is_set():
            raise KeyboardInterrupt
        step = (event.phase, _name(event))
        with self._lock:
            finished = event.total is not None and event.done >= event.total
            started = self._started.setdefault(step, time.monotonic())
            if finished:
                self._finish(step)
            elif time.monotonic() - started >= self._patience:
                self._show(step, event)

    def _show(self, step: Step, event: "ProgressEvent") -> None:
        if is_animated(sys.stderr):
            self._move(step, event)
        elif step not in self._mentioned:
            self._mentioned.add(step)
            note(f"{_title(step)} ...")

    def _move(self, step: Step, event: "ProgressEvent") -> None:
        if self._bars is None:
            self._bars = _make_bars()
            self._bars.start()
        if step not in self._tasks:
            self._tasks[step] = self._bars.add_task(_title(step), total=event.total)
        self._bars.update(self._tasks[step], completed=event.done, total=event.total)

    def _finish(self, step: Step) -> None:
        self._started.pop(step, None)
        task = self._tasks.pop(step, None)
        if self._bars is not None and task is not None:
            self._bars.remove_task(task)
        if not self._tasks:
            self._clear()

    def _clear(self) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._bars = None
        self._tasks.clear()


def _name(event: "ProgressEvent") -> str:
    return one_line(event.file.replace("\\", "/").rsplit("/", 1)[-1])


def _title(step: Step) -> str:
    phase, file = step
    return TITLES.get(phase, f"{phase} {{file}}").format(file=file)


def _make_bars() -> "Bars":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(file=sys.stderr), transient=True)
