"""Batches: tasks worked off through the scheduler."""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from rase_core.errors import (
    BackendFailure,
    ContextOverflow,
    EngineError,
    IntegrityMismatch,
    InvalidLogits,
    MemoryTaken,
    QueueFull,
    RequestTimeout,
)
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import Handle, OnEvent, SchedulerLimits
from rase_models import Engine
from rase_models.batch import BatchLimits, BatchResult, BatchRun, BatchTask
from rase_models.request import Completion, Question, Terms
from rase_models.testing import write_tiny_model

CONFIG = GenerationConfig(max_tokens=8, seed=3, ignore_eos=True)
LONG = GenerationConfig(max_tokens=100, ignore_eos=True)


def task(number: int, config: GenerationConfig = CONFIG, model_id: str = "tiny", n: int = 1) -> BatchTask:
    question = Completion(f"Question {number}", Terms(config=config, n=n))
    return BatchTask(str(number), model_id, question)


def by_id(results: Iterable[BatchResult]) -> dict[str, BatchResult]:
    return {result.task.id: result for result in results}


def test_every_task_gets_the_answer_that_it_gets_alone(engine: Engine) -> None:
    run = engine.batch((task(i, n=1 + i % 2) for i in range(20)), BatchLimits(concurrency=6))
    results = by_id(run)
    assert len(results) == 20
    for number in range(20):
        result = results[str(number)]
        assert (result.error, result.tries) == (None, 1)
        for choice, generation in enumerate(result.generations):
            alone = engine.generate("tiny", f"Question {number}", CONFIG, choice=choice)
            assert generation.text == alone.text
    assert run.tokens == sum(result.tokens for result in results.values()) == 30 * 8
    assert max(engine.load("tiny").snapshot().totals.batch_sizes) > 3


def test_tasks_are_taken_as_there_is_room(engine: Engine) -> None:
    taken = 0

    def tasks() -> Iterator[BatchTask]:
        nonlocal taken
        for number in range(50):
            taken += 1
            yield task(number)

    with engine.batch(tasks(), BatchLimits(concurrency=3)) as run:
        next(run)
        assert taken <= 4
    assert engine.load("tiny").snapshot().totals.ended["max_tokens"] < 10
    assert list(run) == []


def test_what_fails_is_a_result_like_any_other(engine: Engine, tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "damaged.gguf")
    engine.import_model(tmp_path / "damaged.gguf", "damaged")
    data = bytearray((tmp_path / "damaged.gguf").read_bytes())
    data[-1] ^= 1
    (tmp_path / "damaged.gguf").write_bytes(data)
    long = BatchTask("long", "tiny", Completion("x" * 300, Terms(config=CONFIG)))
    results = by_id(engine.batch([task(1), long, *(task(i, model_id="damaged") for i in (2, 3)), task(4)]))
    assert isinstance(results["long"].error, ContextOverflow)
    assert isinstance(results["2"].error, IntegrityMismatch)
    assert results["3"].error is results["2"].error  # nobody reads the file again
    assert {results[key].error for key in "14"} == {None}
    assert {result.tries for result in results.values()} == {1}


class Unreliable:
    """An engine that fails the first so many requests with an error, at once or later."""

    def __init__(self, engine: Engine, error: EngineError, times: int) -> None:
        self._engine, self._error, self._times = engine, error, times

    def default_config(self, model_id: str) -> GenerationConfig:
        return self._engine.default_config(model_id)

    def load(self, model_id: str) -> object:
        return self._engine.load(model_id)

    def submit(self, model_id: str, question: Question, on_event: OnEvent | None = None) -> Handle:
        self._times -= 1
        if self._times >= 0:
            raise self._error
        return self._engine.submit(model_id, question, on_event)


@pytest.mark.parametrize(
    ("error", "times", "tries"),
    [
        (QueueFull(1), 1, 2),
        (BackendFailure("passing"), 1, 2),
        (BackendFailure("lasting"), 9, 2),
        (InvalidLogits(1, 1), 9, 1),
        (ContextOverflow(2, 1), 9, 1),
    ],
)
def test_what_may_pass_is_tried_again(engine: Engine, error: EngineError, times: int, tries: int) -> None:
    (result,) = BatchRun(Unreliable(engine, error, times), [task(1)], BatchLimits(retries=1))
    assert result.tries == tries
    assert result.error is (None if times < tries else error)
    assert bool(result.generations) is (times < tries)


class Crowded(Unreliable):
    """An engine without room for a model at first."""

    def load(self, model_id: str) -> object:
        self._times -= 1
        if self._times >= 0:
            raise self._error
        return self._engine.load(model_id)


def test_a_model_that_has_no_room_at_first_is_loaded_later(engine: Engine) -> None:
    crowded = Crowded(engine, MemoryTaken("tiny", 2, 1, ["other"]), 1)
    results = by_id(BatchRun(crowded, [task(1), task(2)], BatchLimits(retries=1)))
    assert sorted(result.tries for result in results.values()) == [1, 2]
    assert not [result.error for result in results.values() if result.error is not None]


def test_a_task_that_takes_too_long_is_given_up(engine: Engine) -> None:
    (result,) = engine.batch([task(1, LONG)], BatchLimits(timeout=1e-6, retries=0))
    assert isinstance(result.error, RequestTimeout)
    (result,) = engine.batch([task(1, LONG)], BatchLimits(max_tokens=2))
    assert result.tokens == 2


def test_more_tasks_at_once_than_a_model_takes_are_done_all_the_same(tmp_path: Path, tiny_path: Path) -> None:
    limits = SchedulerLimits(waiting=1, running=1)
    with Engine(tmp_path / "narrow", "reference", limits=limits) as engine:
        engine.import_model(tiny_path, "tiny")
        results = by_id(engine.batch(map(task, range(6)), BatchLimits(concurrency=4, retries=50)))
    assert len(results) == 6 and all(result.error is None for result in results.values())


def test_closing_a_batch_ends_what_is_under_way(engine: Engine) -> None:
    with engine.batch([task(0), *(task(i, LONG) for i in range(1, 9))]) as run:
        next(run)
    totals = engine.load("tiny").snapshot().totals
    assert totals.ended["max_tokens"] == 1


@pytest.mark.parametrize("values", [{"concurrency": 0}, {"retries": -1}, {"max_tokens": -1}])
def test_impossible_limits_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(EngineError, match="expected a whole number of at least"):
        BatchLimits(**values)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_try_of_no_time_is_refused(timeout: float) -> None:
    with pytest.raises(EngineError, match="invalid timeout"):
        BatchLimits(timeout=timeout)


def test_a_batch_leaves_room_for_others(engine: Engine) -> None:
    with engine.batch((task(i, LONG) for i in range(40)), BatchLimits(concurrency=6)) as run:
        answered = threading.Event()

        def ask() -> None:
            engine.generate("tiny", "Hello", CONFIG)
            answered.set()

        asking = threading.Thread(target=ask)
        asking.start()
        for _ in run:
            if answered.is_set():
                break
        asking.join(30)
    assert answered.is_set()
