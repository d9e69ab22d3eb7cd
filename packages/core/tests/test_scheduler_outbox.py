"""Those who hear of a step are woken once for all that it tells, when the next one computes."""

from itertools import groupby, pairwise

from rase_core.sampling import GenerationConfig
from rase_core.scheduler import Event, GenerationRequest, put_off
from rase_core.scheduler.limits import SchedulerLimits
from rase_core.scheduler.line import WaitingLine
from rase_core.scheduler.loop import Loop
from rase_core.scheduler.ticket import Ticket
from rase_core.testing import HistoryDecoder


class Watched:
    """A loop whose listeners put off a wake-up for each piece; `happened` is all that happens, in order."""

    def __init__(self, streams: int, max_tokens: int) -> None:
        self.happened: list[str] = []
        decoder = HistoryDecoder(on_forward=lambda _: self.happened.append("computes"))
        line = WaitingLine(64, 64)
        self.loop = Loop(decoder, line, SchedulerLimits(), lambda: 0.0)
        request = GenerationRequest([1, 2, 3], GenerationConfig(temperature=0, max_tokens=max_tokens))
        for number in range(streams):
            line.put(request.sequence(Ticket(1, self._hear), number, decoder))

    def run(self) -> list[str]:
        self.loop.step()
        while self.loop.is_busy:
            self.loop.step()
        return self.happened

    def _hear(self, event: Event) -> None:
        self.happened.append("told")
        put_off(self._wake)

    def _wake(self) -> None:
        self.happened.append("woken")


def test_a_step_wakes_its_listeners_once_right_before_the_next_one_computes() -> None:
    all_of_it = Watched(streams=8, max_tokens=5).run()
    assert ("woken", "woken") not in pairwise(all_of_it)
    happened = [what for what, _ in groupby(all_of_it)]
    steps = happened.count("told")
    assert steps >= 5
    first = happened.index("told")
    assert happened[first:] == ["told", "woken", "computes"] * (steps - 1) + ["told", "woken"]


def test_nobody_is_left_asleep_when_there_is_nothing_more_to_compute() -> None:
    assert Watched(streams=3, max_tokens=1).run()[-1] == "woken"


def test_all_are_woken_when_everything_is_ended_at_once() -> None:
    watched = Watched(streams=3, max_tokens=9)
    watched.loop.step()
    watched.loop.fail_all(ValueError("over"))
    assert watched.happened[-1] == "woken"
    watched = Watched(streams=3, max_tokens=9)
    watched.loop.step()
    watched.loop.abandon(ValueError("over"))
    assert watched.happened[-1] == "woken"


def test_a_thread_that_does_not_step_wakes_at_once() -> None:
    woken: list[int] = []
    put_off(lambda: woken.append(1))
    assert woken == [1]
