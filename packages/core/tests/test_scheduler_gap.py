"""A prompt that arrives never stalls the streams that run, and gets on with it where none do."""

import random
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import numpy as np
import pytest
from rase_core.decoder import Batch
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest, SchedulerLimits
from rase_core.scheduler.pace import PrefillPace
from rase_core.scheduler.testing import StepwiseScheduler, Submitted
from rase_core.testing import HistoryDecoder

STEP, ROW, TOKEN = 0.004, 0.0002, 0.0006


class Machine:
    """A scheduler whose steps take time: for the weights, for each stream, for each token of a prompt."""

    def __init__(
        self,
        noise: Callable[[], float] = lambda: 1.0,
        growth: float = 0.0,
        cached_tokens: int = 0,
        delay: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.batches: list[tuple[int, float]] = []
        self.noise, self.growth, self.delay = noise, growth, delay
        decoder = HistoryDecoder(context_length=4096, block_tokens=64, on_forward=self.forward)
        self.scheduler = StepwiseScheduler(decoder, SchedulerLimits(cached_tokens=cached_tokens))

    def forward(self, batch: Batch) -> None:
        counts = np.unique(batch.sequences, return_counts=True)[1]
        costs = np.where(counts > 1, TOKEN * counts, ROW)
        prompts = batch.positions[np.isin(batch.sequences, np.unique(batch.sequences)[counts > 1])]
        seconds = STEP + float(costs.sum()) + self.growth * float(prompts.sum())
        seconds *= self.noise()
        self.batches.append((len(batch.tokens), seconds))
        self.scheduler.now += seconds + self.delay()

    def submit(self, prompt_tokens: int, max_tokens: int, first: int | None = None) -> Submitted:
        prompt = [((first or prompt_tokens) + i) % 32 for i in range(prompt_tokens)]
        config = GenerationConfig(temperature=0, max_tokens=max_tokens)
        return self.scheduler.submit(GenerationRequest(prompt, config))

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.scheduler.step()


def gaps(stream: Submitted) -> list[float]:
    return [later - earlier for earlier, later in pairwise(stream.times())]


def hiccups(seed: int) -> Callable[[], float]:
    """Return a noise of a tenth, and a step four times as long now and then."""
    numbers = random.Random(seed)
    return lambda: numbers.uniform(0.95, 1.05) * (4 if numbers.random() < 0.02 else 1)


@pytest.mark.parametrize("streams", [1, 4, 16])
@pytest.mark.parametrize("growth", [0.0, 2e-7])
def test_the_gap_stays_under_four_normal_steps_while_a_long_prompt_arrives(
    streams: int, growth: float
) -> None:
    machine = Machine(growth=growth)
    running = [machine.submit(8, 2000) for _ in range(streams)]
    machine.steps(40)
    normal = median(seconds for _, seconds in machine.batches[-10:])
    long_prompt = machine.submit(2000, 4)
    while not long_prompt.is_done:
        machine.steps(1)
    assert max(max(gaps(stream)[20:]) for stream in running) < 4 * normal
    assert len(long_prompt.tokens()) == 4


@pytest.mark.parametrize("streams", [1, 8])
def test_the_gap_stays_so_where_a_prompt_goes_on_deep_in_a_context(streams: int) -> None:
    machine = Machine(growth=6e-7, cached_tokens=4096)
    machine.submit(2500, 1)
    machine.scheduler.run()
    running = [machine.submit(8, 2000) for _ in range(streams)]
    machine.steps(40)
    machine.submit(60, 1)
    machine.steps(20)
    normal = median(seconds for _, seconds in machine.batches[-10:])
    deep = machine.submit(2700, 4, first=2500)
    while not deep.is_done:
        machine.steps(1)
    assert deep.ended[0].cached_tokens > 2400
    assert max(max(gaps(stream)[20:]) for stream in running) < 4 * normal


def test_a_prompt_gets_half_of_the_time_at_least_while_streams_run() -> None:
    machine = Machine()
    machine.submit(8, 4000)
    machine.steps(40)
    started = machine.scheduler.now
    prompt = machine.submit(2000, 1)
    while not prompt.is_done:
        machine.steps(1)
    assert prompt.times()[0] - started < 2 * (2000 * TOKEN)


def test_without_streams_a_step_takes_about_a_fifth_of_a_second() -> None:
    machine = Machine()
    machine.submit(3000, 1)
    machine.scheduler.run()
    seconds = [seconds for rows, seconds in machine.batches]
    assert max(seconds) < 0.22
    assert len(seconds) < 15


def test_steps_that_take_long_by_accident_do_not_widen_the_bound() -> None:
    machine = Machine(hiccups(3))
    stream = machine.submit(8, 3000)
    machine.steps(60)
    normal = median(seconds for _, seconds in machine.batches[-30:])
    prompts = [machine.submit(tokens, 1) for tokens in (1500, 1600, 1700)]
    while not all(prompt.is_done for prompt in prompts):
        machine.steps(1)
    under_load = sorted(gaps(stream)[60:])
    assert under_load[len(under_load) * 95 // 100] < 4 * normal  # a hiccup itself takes four times as long


@pytest.mark.parametrize("streams", [1, 8])
def test_a_prompt_gets_on_where_others_take_the_cores_now_and_then(streams: int) -> None:
    def steps_with(share: float) -> int:
        numbers = random.Random(5)
        machine = Machine(delay=lambda: numbers.uniform(1, 6) * STEP if numbers.random() < share else 0.0)
        for _ in range(streams):
            machine.submit(8, 3000)
        machine.steps(60)
        prompt, before = machine.submit(2000, 1), len(machine.batches)
        while not prompt.is_done:
            machine.steps(1)
        chunks = [seconds for _, seconds in machine.batches[before:]]
        assert max(chunks) < 4 * median(seconds for _, seconds in machine.batches[40:before])
        return len(chunks)

    assert steps_with(0.3) < 1.4 * steps_with(0.0)


@pytest.mark.parametrize("streams", [1, 8])
def test_a_prompt_gets_on_where_all_steps_are_slow_from_when_it_comes(streams: int) -> None:
    def steps_at(pace: float) -> int:
        machine = Machine()
        for _ in range(streams):
            machine.submit(8, 3000)
        machine.steps(60)
        normal = machine.batches[-1][1]
        machine.noise = lambda: pace
        prompt, before = machine.submit(2000, 1), len(machine.batches)
        while not prompt.is_done:
            machine.steps(1)
        assert max(seconds for _, seconds in machine.batches[before:]) < 4 * pace * normal
        return len(machine.batches) - before

    assert steps_at(3.0) < 1.6 * steps_at(1.0)


def test_a_long_prompt_lets_steps_be_normal_now_and_then() -> None:
    machine = Machine()
    machine.submit(8, 3000)
    machine.steps(40)
    prompt, before = machine.submit(2000, 1), len(machine.batches)
    while not prompt.is_done:
        machine.steps(1)
    rows = [rows for rows, _ in machine.batches[before:]]
    assert 0.04 < rows.count(1) / len(rows) < 0.1


def test_first_come_is_first_served() -> None:
    machine = Machine()
    machine.submit(8, 3000)
    machine.steps(20)
    prompts = [machine.submit(tokens, 1) for tokens in (700, 20, 300, 20)]
    while not all(prompt.is_done for prompt in prompts):
        machine.steps(1)
    first = [prompt.times()[0] for prompt in prompts]
    assert first == sorted(first)


def test_everything_that_runs_gets_a_token_in_every_step() -> None:
    machine = Machine()
    streams = [machine.submit(8, 50) for _ in range(5)]
    machine.steps(10)
    counts = [len(stream.times()) for stream in streams]
    machine.submit(900, 1)
    machine.steps(20)
    assert [len(stream.times()) for stream in streams] == [count + 20 for count in counts]


def test_a_new_number_of_streams_gets_a_step_of_its_own() -> None:
    pace = PrefillPace()
    assert pace.tokens(3) == 0
    pace.measured(3, 0, 0.01)
    assert 1 <= pace.tokens(3) <= 16
    assert pace.tokens(4) == 0


def test_a_prompt_always_gets_on_even_where_a_token_costs_as_much_as_a_step() -> None:
    pace = PrefillPace()
    pace.measured(1, 0, 0.01)
    for _ in range(20):
        pace.measured(1, pace.tokens(1), 10.0)
    assert pace.tokens(1) == 1


def test_the_chunk_grows_again_when_tokens_get_cheaper() -> None:
    pace = PrefillPace()
    pace.measured(1, 0, 0.01)
    for seconds in (10.0, *[0.011] * 30):
        pace.measured(1, pace.tokens(1), seconds)
    assert pace.tokens(1) > 100


def test_chunks_do_not_grow_by_steps_that_have_none() -> None:
    pace = PrefillPace()
    pace.measured(1, 0, 0.01)
    pace.measured(1, 4, 0.01)  # as if tokens cost nothing: the normal step had to wait for a core
    before = pace.tokens(1)
    for _ in range(3000):  # a long answer, beside which nothing else is asked
        pace.measured(1, 0, 0.01)
        assert pace.tokens(1) == before


def test_a_long_answer_goes_on_where_a_short_prompt_seemed_to_cost_nothing() -> None:
    machine = Machine(noise=lambda: 3.0)
    stream = machine.submit(8, 1500)
    machine.steps(3)
    machine.noise = lambda: 1.0  # a step with a prompt takes less than one without took before
    machine.submit(7, 1)
    machine.steps(1600)
    assert stream.is_done
    assert stream.error is None
