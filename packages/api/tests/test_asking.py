"""Questions on their way: no more than are taken, and whatever goes wrong, the response is told."""

import threading
import time

import pytest
from rase_api.asking import MOST_AT_ONCE, Ask, Asking, Failed, Finished, Step
from rase_core.answer import Generation, StopReason
from rase_core.scheduler import Ended, OnEvent, Piece
from rase_core.testing_waits import wait_for
from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.parts import Part
from rase_models.chat.reply import Reading


class Submitted:
    """A request that is under way."""

    def cancel(self) -> None:
        """Take back the request."""


class BrokenReader:
    """A reader with a defect."""

    def push(self, text: str) -> list[Part]:
        """Fail on any text."""
        raise LookupError(text)

    def finish(self) -> list[Part]:
        """Say that there is no more."""
        return []


def test_a_fault_in_reading_an_answer_reaches_the_response() -> None:
    told: list[object] = []

    def submit(hear: OnEvent) -> Submitted:
        with pytest.raises(LookupError):
            hear(Piece(0, 1, "text"))
        return Submitted()

    Asking([Ask(0, 1, submit, None, Reading(lambda _: BrokenReader()))], told.append).run()
    failures = [step for step in told if isinstance(step, Failed)]
    assert [type(failure.error) for failure in failures] == [LookupError]


def test_a_thought_that_is_seen_at_the_end_has_its_share_of_the_tokens() -> None:
    """A reader of pieces takes a thought without an opening tag for content."""
    text, told = "hm, so </think>Yes.", list[Step]()

    def submit(hear: OnEvent) -> Submitted:
        for token, piece in enumerate(("hm,", " so", " </think>", "Yes.")):
            hear(Piece(0, token, piece))
        hear(Ended(0, Generation((0, 1, 2, 3), text, StopReason.STOP_TOKEN, None, 1, 0.0, 0.0)))
        return Submitted()

    reading = chat_dialect("<think></think>{{ messages }}").reading("Why?", ChatOptions())
    Asking([Ask(0, 1, submit, None, reading)], told.append).run()
    (end,) = (step for step in told if isinstance(step, Finished))
    assert (end.reply.reasoning, end.reply.content) == ("hm, so", "Yes.")
    assert end.generation.thought_tokens == 1


def test_no_more_is_asked_than_somebody_takes() -> None:
    """Answers that a client does not read stay in memory."""
    submitted: list[Submitted] = []

    def submit(hear: OnEvent) -> Submitted:
        for choice in range(2):
            hear(Ended(choice, Generation((), "", StopReason.STOP_TOKEN, None, 1, 0.0, 0.0)))
        submitted.append(Submitted())
        return submitted[-1]

    asking = Asking([Ask(2 * number, 2, submit) for number in range(100)], lambda step: None)
    thread = threading.Thread(target=asking.run)
    thread.start()
    wait_for(lambda: len(submitted) == MOST_AT_ONCE)
    time.sleep(0.1)
    assert len(submitted) == MOST_AT_ONCE
    asking.make_room()
    wait_for(lambda: len(submitted) == MOST_AT_ONCE + 1)
    asking.stop()
    thread.join()
    assert len(submitted) == MOST_AT_ONCE + 1
