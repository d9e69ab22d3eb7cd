"""Whatever is asked in whatever order, every answer is the one that its request gets alone."""

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from rase_core.answer import Generation, StopReason
from rase_core.decoder import Logits
from rase_core.errors import QueueFull, RequestTimeout
from rase_core.generation import generate
from rase_core.logprobs import Logprobs
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest, SchedulerLimits
from rase_core.scheduler.testing import StepwiseScheduler, Submitted
from rase_core.testing import HistoryDecoder, ScriptedDetokenizer

CONTEXT, VOCAB, END = 40, 12, 11
STEM = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4]

configs = st.builds(
    GenerationConfig,
    temperature=st.sampled_from([0.0, 0.0, 0.8]),
    max_tokens=st.sampled_from([0, 1, 6, 30]),
    seed=st.integers(0, 3),
    top_k=st.sampled_from([0, 5]),
    presence_penalty=st.sampled_from([0.0, 0.5]),
    dry_multiplier=st.sampled_from([0.0, 0.8]),
    stop=st.sampled_from([(), ("ab",), ("c", "dea")]),
    ignore_eos=st.booleans(),
)
prompts = st.builds(
    lambda shared, own: [*STEM[:shared], *own],
    st.integers(0, len(STEM)),
    st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12),
)


class Habitual(HistoryDecoder):
    """A decoder that mostly says STEM over and over, so that guesses come true, where it has a habit."""

    def __init__(
        self, habit: bool, block_tokens: int = 4, kv_capacity: int | None = None, cheap_rows: int = 1
    ) -> None:
        self._habit = habit
        super().__init__(
            vocab_size=VOCAB,
            context_length=CONTEXT,
            eos_tokens=frozenset({END}),
            block_tokens=block_tokens,
            kv_capacity=kv_capacity,
            cheap_rows=cheap_rows,
        )

    def _logits(self, history: Sequence[int]) -> Logits:
        row = super()._logits(history)
        row[STEM[len(history) % 9]] += 6 * self._habit
        return row


class Answered(NamedTuple):
    """The parts of a generation that do not depend on time."""

    tokens: tuple[int, ...]
    text: str
    stop_reason: StopReason
    stop: str | None


def answered(generation: Generation) -> Answered:
    return Answered(generation.tokens, generation.text, generation.stop_reason, generation.stop)


def letters() -> ScriptedDetokenizer:
    return ScriptedDetokenizer({token: bytes([ord("a") + token]) for token in range(VOCAB)})


def alone(request: GenerationRequest, choice: int, habit: bool) -> Answered:
    generation = generate(
        Habitual(habit),
        request.prompt,
        request.config,
        detokenizer=letters(),
        choice=request.choice + choice,
    )
    return answered(generation)


class AnyUse(RuleBasedStateMachine):
    """Requests, cancellations, time and steps in any order."""

    submitted = Bundle("submitted")

    @initialize(
        capacity=st.sampled_from([None, CONTEXT, 2 * CONTEXT]),
        running=st.integers(3, 6),
        cached=st.sampled_from([None, 0, 24]),
        block=st.sampled_from([4, 16]),
        cheap_rows=st.sampled_from([1, 6, 100]),
        habit=st.booleans(),
    )
    def start(
        self, capacity: int | None, running: int, cached: int | None, block: int, cheap_rows: int, habit: bool
    ) -> None:
        self.habit = habit
        limit = None if capacity is None else -(-capacity // block) * block
        self.decoder = Habitual(habit, block, limit, cheap_rows)
        self.decoder.on_forward = lambda batch: self.pass_time(0.002 + 0.01 * len(batch.tokens))
        self.scheduler = StepwiseScheduler(
            self.decoder, SchedulerLimits(waiting=4, running=running, cached_tokens=cached)
        )
        self.requests: list[Submitted] = []
        self.cancelled: set[Submitted] = set()

    def pass_time(self, seconds: float) -> None:
        self.scheduler.now += seconds

    @rule(
        target=submitted,
        prompt=prompts,
        config=configs,
        n=st.sampled_from([1, 1, 1, 2, 3]),
        choice=st.integers(0, 2),
        timeout=st.sampled_from([None, None, None, 0.3]),
        told=st.sampled_from([None, None, None, Logprobs(1, of_prompt=True)]),
    )
    def submit(
        self,
        prompt: list[int],
        config: GenerationConfig,
        n: int,
        choice: int,
        timeout: float | None,
        told: Logprobs | None,
    ) -> Submitted | None:
        request = GenerationRequest(prompt, config, letters, choice, n, timeout, logprobs=told)
        try:
            self.requests.append(self.scheduler.submit(request))
        except QueueFull as error:
            assert error.limit == 4
            self.scheduler.run()
            return None
        return self.requests[-1]

    @rule(steps=st.integers(1, 12))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.scheduler.step()

    @rule(request=submitted)
    def cancel(self, request: Submitted | None) -> None:
        if request is not None and not request.is_done:
            request.cancel()
            self.cancelled.add(request)
            self.scheduler.step()
            assert request.is_done

    @rule(seconds=st.floats(0, 0.2))
    def wait(self, seconds: float) -> None:
        self.pass_time(seconds)

    @invariant()
    def the_memory_suffices(self) -> None:
        assert self.decoder.kv_used <= (self.decoder.kv_capacity or 10**9)

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        self.scheduler.run()
        for request in self.requests:
            self.check(request)
        self.scheduler.close()
        assert self.decoder.open_sequences == 0

    def check(self, submitted: Submitted) -> None:
        request = submitted.request
        if isinstance(submitted.error, RequestTimeout):
            assert request.timeout is not None
            self.check_partial(submitted)
        elif submitted in self.cancelled:
            assert submitted.error is None and len(submitted.ended) == request.n
            self.check_partial(submitted)
        else:
            assert submitted.error is None
            expected = [alone(request, choice, self.habit) for choice in range(request.n)]
            assert [answered(submitted.ended[choice]) for choice in range(request.n)] == expected
        for choice, generation in submitted.ended.items():
            assert submitted.text(choice) == generation.text
            assert submitted.tokens(choice) == generation.tokens

    def check_partial(self, submitted: Submitted) -> None:
        for choice in range(submitted.request.n):
            tokens, whole = submitted.tokens(choice), alone(submitted.request, choice, self.habit).tokens
            assert whole[: len(tokens)] == tokens


AnyUse.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestAnyUse = AnyUse.TestCase
