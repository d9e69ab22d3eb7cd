"""A batch from file to file."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from rase_models.batch.journal import Journal
from rase_models.batch.lines import BatchFile, InvalidLine
from rase_models.batch.record import record_of, record_of_invalid
from rase_models.batch.run import BatchEngine, BatchRun
from rase_models.batch.task import BatchLimits, BatchResult, BatchTask


@dataclass(frozen=True, slots=True)
class Summary:
    """How far a batch is.

    Attributes:
        total: all lines that are not blank.
        earlier: those that had a final result when the batch began.
        earlier_failed: those of them whose result is an error.
        answered, failed, invalid: those since; invalid lines are no tasks.
        tries: of all tasks since.
        tokens: generated since, in all tries.
    """

    total: int
    earlier: int = 0
    earlier_failed: int = 0
    answered: int = 0
    failed: int = 0
    invalid: int = 0
    tries: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """How many lines have a result."""
        return self.earlier + self.answered + self.failed + self.invalid

    @property
    def errors(self) -> int:
        """How many lines have an error for their result, whenever it came."""
        return self.earlier_failed + self.failed + self.invalid


Progress = Callable[[Summary, Callable[[], int]], None]
"""Hears of every result, with what tells the tokens so far at any time."""


def run_file(
    engine: BatchEngine,
    source: Path,
    results: Path,
    limits: BatchLimits | None = None,
    *,
    on_progress: Progress | None = None,
    on_invalid: Callable[[InvalidLine], None] | None = None,
) -> Summary:
    """Work off a file of tasks, and write a result for each of its lines.

    Tasks that have a result already are left out. Errors that may pass are none, nor are lines that were no
    tasks: these are tried again, and what was written of them is taken away as soon as it begins. Whatever
    ends it, every task is afterwards either done, with a result, or not, with none. Raises ForeignOutput,
    OutputInUse, UnusableOutput, OSError.
    """
    tasks = BatchFile(source, engine.default_config)
    with Journal(results) as journal:
        work = _Work(journal, Summary(tasks.count()), on_progress, on_invalid)
        with closing(BatchRun(engine, work.tasks(tasks), limits)) as run:
            work.tokens = lambda: run.tokens
            work.report()
            for result in run:
                work.write(result)
        return work.summary


class _Work:
    """A file of tasks on its way to a journal."""

    def __init__(
        self,
        journal: Journal,
        summary: Summary,
        on_progress: Progress | None,
        on_invalid: Callable[[InvalidLine], None] | None,
    ) -> None:
        self._journal, self._on_progress, self._on_invalid = journal, on_progress, on_invalid
        self._earlier, self._earlier_failed = frozenset(journal.done), frozenset(journal.failed)
        self._lines: dict[str, int] = {}
        self._started = time.monotonic()
        self.summary = summary
        self.tokens: Callable[[], int] = lambda: 0

    def tasks(self, lines: BatchFile) -> Iterator[BatchTask]:
        """Yield the tasks that are not done; other lines get their result at once."""
        for line in lines:
            if isinstance(line.task, InvalidLine):
                self._refuse(line.task)
            elif line.task.id in self._earlier:
                self._skip(line.task.id)
            else:
                self._lines[line.task.id] = line.number
                yield line.task

    def write(self, result: BatchResult) -> None:
        """Write the result of a task."""
        self._journal.write(record_of(result, self._lines.pop(result.task.id)))
        summary, failed = self.summary, result.error is not None
        self._count(
            answered=summary.answered + (not failed),
            failed=summary.failed + failed,
            tries=summary.tries + result.tries,
        )

    def report(self) -> None:
        """Tell how far it is."""
        if self._on_progress is not None:
            self._on_progress(self.summary, self.tokens)

    def _skip(self, custom_id: str) -> None:
        summary, failed = self.summary, custom_id in self._earlier_failed
        self._count(earlier=summary.earlier + 1, earlier_failed=summary.earlier_failed + failed)

    def _refuse(self, invalid: InvalidLine) -> None:
        self._journal.write(record_of_invalid(invalid))
        if self._on_invalid is not None:
            self._on_invalid(invalid)
        self._count(invalid=self.summary.invalid + 1)

    def _count(self, **counts: int) -> None:
        seconds = time.monotonic() - self._started
        self.summary = replace(self.summary, **counts, tokens=self.tokens(), seconds=seconds)
        self.report()
