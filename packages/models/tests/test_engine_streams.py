"""Answers of the engine as they come: their pieces, who hears them, and what ends them early."""

import gc
import threading
import time
from pathlib import Path

import pytest
from rase_core.generation import StopReason
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import SchedulerLimits
from rase_core.testing_waits import wait_for
from rase_models import Engine

CONFIG = GenerationConfig(max_tokens=20, seed=7, ignore_eos=True)
LONG = GenerationConfig(max_tokens=100, seed=7, ignore_eos=True)
HELLO = [{"role": "user", "content": "Hello"}]


def ended(engine: Engine) -> tuple[int, int]:
    """Return how many answers were cancelled, and how many were long enough."""
    counts = engine.load("tiny").snapshot().totals.ended
    return counts["cancelled"], counts["max_tokens"]


def test_a_streamed_answer_is_the_one_that_is_not_streamed(engine: Engine) -> None:
    whole = engine.chat("tiny", HELLO, CONFIG)
    with engine.stream_chat("tiny", HELLO, CONFIG) as stream:
        texts = list(stream)
    assert stream.generation is not None
    assert "".join(texts) == stream.generation.text == whole.text
    assert stream.generation.tokens == whole.tokens
    assert len(texts) > 1
    told: list[str] = []
    called = engine.stream_chat("tiny", HELLO, CONFIG, on_text=told.append)
    assert (told, called.text) == (texts, whole.text)


def test_a_streamed_completion_is_the_one_that_is_not_streamed(engine: Engine) -> None:
    whole = engine.generate("tiny", "Hello", CONFIG)
    assert "".join(engine.stream_generate("tiny", "Hello", CONFIG)) == whole.text


def test_false_from_on_text_returns_what_there_is(engine: Engine) -> None:
    told: list[str] = []

    def listen(text: str) -> bool:
        told.append(text)
        return len(told) < 3

    generation = engine.stream_chat("tiny", HELLO, CONFIG, on_text=listen)
    assert generation.stop_reason is StopReason.CANCELLED
    assert generation.text == "".join(told)
    assert len(told) == 3


def test_what_on_text_raises_reaches_the_caller_and_the_engine_goes_on(engine: Engine) -> None:
    def fail(text: str) -> bool:
        raise RuntimeError("no more paper")

    with pytest.raises(RuntimeError, match="no more paper"):
        engine.stream_chat("tiny", HELLO, CONFIG, on_text=fail)
    assert engine.chat("tiny", HELLO, CONFIG).text


def test_a_request_that_is_cancelled_before_it_starts_is_empty(engine: Engine) -> None:
    generation = engine.generate("tiny", "Hello", CONFIG, cancelled=lambda: True)
    assert (generation.stop_reason, generation.tokens) == (StopReason.CANCELLED, ())
    assert generation.prompt_tokens == 5


def test_a_request_can_be_cancelled_while_it_waits_for_another(tmp_path: Path, tiny_path: Path) -> None:
    with Engine(tmp_path / "narrow", "reference", limits=SchedulerLimits(running=1)) as engine:
        engine.import_model(tiny_path, "tiny")
        with engine.stream_generate("tiny", "Hello", LONG) as first:
            next(first)
            given_up = threading.Event()
            stream = engine.stream_generate("tiny", "Hello", CONFIG, cancelled=given_up.is_set)
            given_up.set()
            assert list(stream) == []
    assert stream.generation is not None
    assert stream.generation.stop_reason is StopReason.CANCELLED


def test_a_cancelled_answer_is_what_was_heard_of_it(engine: Engine) -> None:
    told: list[str] = []
    generation = engine.generate("tiny", "Hello", LONG, on_text=told.append, cancelled=lambda: len(told) >= 3)
    assert generation.stop_reason is StopReason.CANCELLED
    assert generation.text == "".join(told)
    assert 0 < len(generation.tokens) < LONG.max_tokens
    whole = engine.generate("tiny", "Hello", LONG)
    assert whole.tokens[: len(generation.tokens)] == generation.tokens


def test_closing_a_stream_stops_it(engine: Engine) -> None:
    stream = engine.stream_generate("tiny", "Hello", LONG)
    next(stream)
    stream.close()
    assert list(stream) == []
    assert stream.generation is not None
    assert stream.generation.text
    wait_for(lambda: engine.load("tiny").snapshot().decoding == 0)


def test_a_forgotten_stream_stops(engine: Engine) -> None:
    stream = engine.stream_generate("tiny", "Hello", LONG)
    next(stream)
    del stream
    gc.collect()
    engine.generate("tiny", "Hello", CONFIG)
    wait_for(lambda: ended(engine) == (1, 1))


def test_an_interrupt_ends_the_request_of_its_thread_alone(engine: Engine) -> None:
    def interrupt(text: str) -> bool:
        raise KeyboardInterrupt

    with engine.stream_generate("tiny", "Hello", LONG) as other:
        next(other)
        with pytest.raises(KeyboardInterrupt):
            engine.chat("tiny", HELLO, LONG, on_text=interrupt)
        list(other)
    assert other.generation is not None and other.generation.stop_reason is StopReason.MAX_TOKENS
    wait_for(lambda: ended(engine) == (1, 1))


def test_other_threads_run_while_it_generates(engine: Engine) -> None:
    counted, seen = 0, list[int]()
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.0001)

    counter = threading.Thread(target=count)
    counter.start()
    engine.generate("tiny", "Hello", LONG, on_text=lambda text: seen.append(counted))
    done.set()
    counter.join()
    assert len(set(seen)) > 10  # it moved on between the texts, not only before and after them
