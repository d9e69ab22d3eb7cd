"""Whatever goes wrong while an answer is heard, the response is told."""

from collections.abc import Callable

import pytest
from rase_api.asking import Ask, Asking, Failed
from rase_core.scheduler import Piece


class Submitted:
    """A request that is under way."""

    def cancel(self) -> None:
        """Take back the request."""


class BrokenReader:
    """A reader with a defect."""

    def push(self, text: str) -> list[object]:
        """Fail on any text."""
        raise LookupError(text)


class BrokenReading:
    """A way to read answers that cannot."""

    def reader(self) -> BrokenReader:
        """Return a reader with a defect."""
        return BrokenReader()


def test_a_fault_in_reading_an_answer_reaches_the_response() -> None:
    told: list[object] = []

    def submit(hear: Callable[[object], bool]) -> Submitted:
        with pytest.raises(LookupError):
            hear(Piece(0, 1, "text"))
        return Submitted()

    Asking([Ask(0, 1, submit, None, BrokenReading())], told.append).run()
    failures = [step for step in told if isinstance(step, Failed)]
    assert [type(failure.error) for failure in failures] == [LookupError]
