"""Answers as iterators of texts."""

import gc
from queue import SimpleQueue

import pytest
from rase_core.generation import Generation, StopReason
from rase_core.scheduler import Ended, Event, Failed, Handle, Piece
from rase_core.scheduler.ticket import Ticket
from rase_models.text_stream import TextStream

DONE = Generation((1, 2, 3), "abc", StopReason.MAX_TOKENS, None, 3, 0.0, 0.0)


class Script:
    """A request of which everything has happened, as it was written down."""

    def __init__(self, *events: Event) -> None:
        queue: SimpleQueue[Event] = SimpleQueue()
        self.ticket = Ticket(1, queue.put)
        for event in events:
            match event:
                case Piece():
                    self.ticket.tell(event)
                case Ended():
                    self.ticket.end(0, event.generation)
                case Failed():
                    self.ticket.fail(event.error)
        self.handle = Handle(self.ticket, queue)


A, B, HELD = Piece(0, 1, "a"), Piece(0, 2, "b"), Piece(0, 3, "")


def test_texts_come_in_order_and_then_the_generation() -> None:
    stream = TextStream(Script(A, HELD, B, Ended(0, DONE)).handle)
    assert list(stream) == ["a", "b"]
    assert stream.generation is DONE
    assert list(stream) == []


def test_what_fails_is_raised_after_the_texts_before_it() -> None:
    stream = TextStream(Script(A, Failed(RuntimeError("broken"))).handle)
    assert next(stream) == "a"
    with pytest.raises(RuntimeError, match="broken"):
        next(stream)
    assert stream.generation is None
    assert list(stream) == []


def test_an_answer_that_was_left_early_is_what_was_read() -> None:
    script = Script(A, B, Ended(0, DONE))
    with TextStream(script.handle) as stream:
        assert next(stream) == "a"
    assert script.ticket.is_cancelled
    generation = stream.generation
    assert generation is not None
    assert (generation.tokens, generation.text) == ((1,), "a")
    assert generation.stop_reason is StopReason.CANCELLED
    assert list(stream) == []


def test_a_stream_that_failed_unread_has_no_generation() -> None:
    with TextStream(Script(A, Failed(RuntimeError("broken"))).handle) as stream:
        assert next(stream) == "a"
    assert stream.generation is None


def test_nothing_more_is_read_when_it_is_cancelled() -> None:
    read: list[str] = []
    stream = TextStream(Script(A, B, Ended(0, DONE)).handle, cancelled=lambda: bool(read))
    read.extend(stream)
    assert read == ["a"]
    one = TextStream(Script(A, B, Ended(0, DONE)).handle, cancelled=lambda: True)
    assert list(one) == []
    assert one.generation is not None and one.generation.text == ""


def test_a_forgotten_stream_ends_the_generation() -> None:
    script = Script(A)
    stream = TextStream(script.handle)
    del script.handle
    assert next(stream) == "a"
    del stream
    gc.collect()
    assert script.ticket.is_cancelled
