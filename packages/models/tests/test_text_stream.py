"""Answers as iterators of texts."""

import gc
import threading
from collections.abc import Callable

import pytest
from rase_core.generation import Generation, StopReason
from rase_models.text_stream import TextStream

DONE = Generation((1, 2), "ab", StopReason.MAX_TOKENS, None, 3, 0.0, 0.0)
OnText = Callable[[str], bool | None]
IsCancelled = Callable[[], bool]


def endless(finished: threading.Event) -> Callable[[OnText, IsCancelled], Generation]:
    def generate(on_text: OnText, cancelled: IsCancelled) -> Generation:
        on_text("a")
        while not cancelled():
            pass
        finished.set()
        return DONE

    return generate


def test_texts_come_in_order_and_then_the_generation() -> None:
    def generate(on_text: OnText, cancelled: IsCancelled) -> Generation:
        on_text("a")
        on_text("b")
        return DONE

    stream = TextStream(generate)
    assert list(stream) == ["a", "b"]
    assert stream.generation is DONE
    assert list(stream) == []


def test_what_fails_is_raised_after_the_texts_before_it() -> None:
    def generate(on_text: OnText, cancelled: IsCancelled) -> Generation:
        on_text("a")
        raise RuntimeError("broken")

    stream = TextStream(generate)
    assert next(stream) == "a"
    with pytest.raises(RuntimeError, match="broken"):
        next(stream)
    assert stream.generation is None
    assert list(stream) == []


def test_leaving_the_stream_early_ends_the_generation() -> None:
    finished = threading.Event()
    with TextStream(endless(finished)) as stream:
        assert next(stream) == "a"
    assert finished.is_set()
    assert stream.generation is DONE


def test_a_forgotten_stream_ends_the_generation() -> None:
    finished = threading.Event()
    stream = TextStream(endless(finished))
    assert next(stream) == "a"
    del stream
    gc.collect()
    assert finished.wait(10)
