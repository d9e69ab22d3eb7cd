"""Tasks worked off through the schedulers of their models, so many at a time."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Protocol

from rase_core.errors import (
    BackendFailure,
    EngineError,
    InvalidLogits,
    MemoryTaken,
    QueueFull,
    RequestTimeout,
    ShuttingDown,
    TooManyOpenFiles,
)
from rase_core.generation import Generation
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import Ended, Event, Failed, Handle, OnEvent, Piece

from rase_models.batch.task import BatchLimits, BatchResult, BatchTask
from rase_models.request import Question, Terms

MAY_PASS = (QueueFull, ShuttingDown, RequestTimeout, BackendFailure, MemoryTaken, TooManyOpenFiles)
STAYS = (InvalidLogits,)

_PAUSE_SECONDS = 0.5
_POLL_SECONDS = 0.5


def may_pass(error: Exception) -> bool:
    """Tell whether what failed may succeed when it is tried again."""
    return isinstance(error, MAY_PASS) and not isinstance(error, STAYS)


class BatchEngine(Protocol):
    """What a batch needs of an engine."""

    def default_config(self, model_id: str) -> GenerationConfig:
        """Return a model's sampling settings."""

    def load(self, model_id: str) -> object:
        """Bring a model into memory."""

    def submit(self, model_id: str, question: Question, on_event: OnEvent | None = None) -> Handle:
        """Ask without waiting for the answer."""


class BatchRun(Iterator[BatchResult]):
    """The results of tasks as they come, in the order in which they are ready.

    Tasks are taken as there is room for them. A model that cannot be loaded, for reasons that stay, is not
    tried again for the other tasks. `close`, or the end of a `with` block, cancels what is under way. For use
    by one thread; `tokens` may be read by any: how many were generated so far, with those of failed tries.
    """

    def __init__(
        self, engine: BatchEngine, tasks: Iterable[BatchTask], limits: BatchLimits | None = None
    ) -> None:
        self._engine, self._tasks, self._limits = engine, iter(tasks), limits or BatchLimits()
        self._running: dict[_Try, Handle] = {}
        self._again: deque[_Try] = deque()
        self._over: SimpleQueue[_Try] = SimpleQueue()
        self._ready: deque[BatchResult] = deque()
        self._faults: dict[str, EngineError | None] = {}
        self._counted = 0

    @property
    def tokens(self) -> int:
        """How many tokens were generated so far."""
        return self._counted + sum(attempt.tokens for attempt in [*self._running])

    def close(self) -> None:
        """Cancel what is under way and wait until it has ended."""
        self._tasks = iter(())
        self._again.clear()
        for handle in self._running.values():
            handle.cancel()
        for handle in self._running.values():
            handle.wait()
        self._running.clear()

    def __enter__(self) -> "BatchRun":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __next__(self) -> BatchResult:
        while not self._ready:
            self._fill()
            if not self._ready:
                self._wait()
        return self._ready.popleft()

    def _fill(self) -> None:
        while len(self._running) < self._limits.concurrency and not self._ready:
            attempt = self._next_try()
            if attempt is None:
                return
            self._start(attempt)

    def _next_try(self) -> "_Try | None":
        if self._again and self._again[0].not_before <= time.monotonic():
            return self._again.popleft()
        task = next(self._tasks, None)
        return None if task is None else _Try(task, self._over.put)

    def _wait(self) -> None:
        """Wait until something under way ends, or a try may begin; StopIteration when there is neither."""
        if self._running:
            try:
                self._settle(self._over.get(timeout=_POLL_SECONDS))
            except Empty:
                return
        elif self._again:
            time.sleep(max(self._again[0].not_before - time.monotonic(), 0.0))
        else:
            raise StopIteration

    def _start(self, attempt: "_Try") -> None:
        attempt.begin()
        task = attempt.task
        try:
            self._load(task.model_id)
            question = self._limited(task)
            self._running[attempt] = self._engine.submit(task.model_id, question, attempt.hear)
        except EngineError as error:
            attempt.error = error
            self._settle(attempt)

    def _load(self, model_id: str) -> None:
        if model_id not in self._faults:
            try:
                self._engine.load(model_id)
                self._faults[model_id] = None
            except EngineError as error:
                if may_pass(error):
                    raise
                self._faults[model_id] = error
        if (fault := self._faults[model_id]) is not None:
            raise fault

    def _limited(self, task: BatchTask) -> Question:
        terms, limits = task.question.terms, self._limits
        config = terms.config or self._engine.default_config(task.model_id)
        most = min(limit for limit in (config.max_tokens, limits.max_tokens) if limit is not None)
        timeout = min((limit for limit in (terms.timeout, limits.timeout) if limit is not None), default=None)
        limited: Terms = replace(terms, config=replace(config, max_tokens=most), timeout=timeout)
        return replace(task.question, terms=limited)

    def _settle(self, attempt: "_Try") -> None:
        self._counted += attempt.tokens
        self._running.pop(attempt, None)
        if attempt.may_pass and attempt.tries <= self._limits.retries:
            attempt.pause()
            self._again.append(attempt)
        else:
            self._ready.append(attempt.result())


class _Try:
    """A task under way, and how often it was begun."""

    def __init__(self, task: BatchTask, tell_end: "Callable[[_Try], None]") -> None:
        self.task, self._tell_end = task, tell_end
        self.tries = self.tokens = 0
        self.error: Exception | None = None
        self.not_before = 0.0
        self._started: float | None = None
        self._generations: dict[int, Generation] = {}

    @property
    def may_pass(self) -> bool:
        """Whether it failed with what may pass when it is tried again."""
        return self.error is not None and may_pass(self.error)

    def begin(self) -> None:
        """Count a try."""
        self.tries += 1
        self.tokens, self.error = 0, None
        self._generations.clear()
        self._started = self._started or time.time()

    def pause(self) -> None:
        """Put the next try off, the longer the more there were."""
        self.not_before = time.monotonic() + _PAUSE_SECONDS * self.tries

    def hear(self, event: Event) -> None:
        """Note what happens, in the scheduler's thread."""
        match event:
            case Piece(_, token):
                self.tokens += token is not None
            case Ended(choice, generation):
                self._generations[choice] = generation
                if len(self._generations) == self.task.question.terms.n:
                    self._tell_end(self)
            case Failed(error):
                self.error = error
                self._tell_end(self)

    def result(self) -> BatchResult:
        """Return how it ended."""
        ended = () if self.error is not None else sorted(self._generations.items())
        generations = tuple(generation for _, generation in ended)
        return BatchResult(
            self.task, generations, self.error, self._started or time.time(), time.time(), self.tries
        )
