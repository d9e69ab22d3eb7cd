"""Those who hear of a step are woken once for all that it tells, when the next one computes."""

from itertools import groupby, pairwise

from rase_core.errors import DeviceLost
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import Event, GenerationRequest, put_off
from rase_core.scheduler.limits import SchedulerLimits
from rase_core.scheduler.line import WaitingLine
from rase_core.scheduler.loop import Loop
from rase_core.scheduler.ticket import Ticket
from rase_core.testing import HistoryDecoder


class Watched:
    """A loop whose listeners put off a wake-up for each piece; `happened` is all that happens, in order."""

    def __init__(self, streams: int, max_tokens: int, make: type[HistoryDecoder] = HistoryDecoder) -> None:
        self.happened: list[str] = []
        self._line, self._config = WaitingLine(64, 64), GenerationConfig(temperature=0, max_tokens=max_tokens)
        self._decoder = make(on_forward=lambda _: self.happened.append("computes"))
        self.loop = Loop(self._decoder, self._line, SchedulerLimits(), lambda: 0.0, self._replace)
        for number in range(streams):
            self.ask(number)

    def ask(self, number: int, n: int = 1) -> None:
        request = GenerationRequest([1, 2, 3], self._config, n=n)
        self._line.put(request.sequence(Ticket(n, self._hear), number, self._decoder))

    def run(self) -> list[str]:
        self.loop.step()
        while self.loop.is_busy:
            self.loop.step()
        return self.happened

    def _hear(self, event: Event) -> None:
        self.happened.append("told")
        put_off(self._wake)

    def _replace(self, error: DeviceLost) -> HistoryDecoder:
        self.happened.append("replaces")
        return HistoryDecoder()

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


class Unforkable(HistoryDecoder):
    """Loses its device when a sequence is forked, after others were told something in the same step."""

    def fork(self, sequence: int, length: int) -> int:
        raise DeviceLost("cuda", "gone")


def test_all_are_woken_before_another_decoder_is_made() -> None:
    watched = Watched(streams=2, max_tokens=9, make=Unforkable)
    watched.ask(2, n=2)
    happened = watched.run()
    before = happened[: happened.index("replaces")]
    assert "told" in before and before[-1] == "woken"


def test_a_thread_that_does_not_step_wakes_at_once() -> None:
    woken: list[int] = []
    put_off(lambda: woken.append(1))
    assert woken == [1]
