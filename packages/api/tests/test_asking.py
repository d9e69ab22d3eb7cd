"""Whatever goes wrong while an answer is heard, the response is told."""

import pytest
from rase_api.asking import Ask, Asking, Failed
from rase_core.scheduler import OnEvent, Piece
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
