from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.constraint import Allowed
from rase_core.errors import ConstraintFailure, InvalidGenerationConfig, InvalidLogits
from rase_core.generation import StopReason, generate
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import Event, GenerationRequest, Piece, Scheduler
from rase_core.testing import HistoryDecoder, ScriptedDecoder

EOS = 7


class OneOf:
    """Follows the token sequences of a list, which may be beginnings of each other."""

    def __init__(self, *answers: Sequence[int], vocab_size: int = 32) -> None:
        self._answers, self._vocab_size = [list(answer) for answer in answers], vocab_size
        self._length = 0

    def allowed(self) -> Allowed:
        mask = np.zeros(self._vocab_size, np.bool_)
        mask[[answer[self._length] for answer in self._answers if len(answer) > self._length]] = True
        if not mask.any() and not self.may_end:
            raise ConstraintFailure("nothing may come")
        return mask

    def forced(self) -> Sequence[int]:
        return ()

    def accept(self, token: int) -> None:
        self._answers = [a for a in self._answers if a[self._length : self._length + 1] == [token]]
        self._length += 1

    @property
    def may_end(self) -> bool:
        return any(len(answer) == self._length for answer in self._answers)

    @property
    def is_complete(self) -> bool:
        return bool(self._answers) and all(len(answer) == self._length for answer in self._answers)


def decoder(*script: int) -> ScriptedDecoder:
    return ScriptedDecoder(script, eos_tokens=frozenset({EOS}))


GREEDY = GenerationConfig(temperature=0)
CONFIGS = (
    GREEDY,
    GenerationConfig(temperature=1e6, top_k=0, top_p=1, min_p=0),
    GenerationConfig(temperature=5, top_k=0, top_p=0.9),
    GenerationConfig(temperature=5, top_k=0, top_p=1, min_p=0.01),
    GenerationConfig(xtc_probability=1, xtc_threshold=0, top_k=0, top_p=1, min_p=0),
    GenerationConfig(xtc_probability=1, xtc_threshold=0, repetition_penalty=50, frequency_penalty=100),
)


def test_only_allowed_tokens_come_and_the_answer_ends_when_nothing_may_follow() -> None:
    answer = generate(decoder(9), [1], GREEDY, constraint=OneOf([3, 4, 5]))
    assert answer.tokens == (3, 4, 5)
    assert answer.stop_reason is StopReason.STOP_TOKEN


@pytest.mark.parametrize("config", CONFIGS)
@given(seed=st.integers(0, 2**64 - 1))
def test_every_way_of_sampling_keeps_to_the_rules(config: GenerationConfig, seed: int) -> None:
    answers = [(1, 2, 3), (1, 2), (4,), (30, 31, 0, 0)]
    config = GenerationConfig.from_mapping({"seed": seed}, config)
    assert generate(decoder(9, 8), [1], config, constraint=OneOf(*answers)).tokens in answers


def test_an_end_token_may_come_only_where_the_answer_may_end() -> None:
    assert generate(decoder(EOS), [1], GREEDY, constraint=OneOf([3], [3, 4], [3, 5, 6])).tokens == (3,)
    assert generate(decoder(EOS), [1], GREEDY, constraint=OneOf([3, 5, 6], [3, 5])).tokens == (3, 5)


def test_other_tokens_that_end_the_answer_follow_the_same_rule() -> None:
    config = GenerationConfig(temperature=0, stop_tokens=frozenset({9, 31}))
    assert generate(decoder(9), [1], config, constraint=OneOf([3], [3, 4])).tokens == (3,)


def test_end_tokens_that_are_ignored_never_come() -> None:
    config = GenerationConfig(temperature=0, ignore_eos=True)
    assert generate(decoder(EOS), [1], config, constraint=OneOf([3], [3, 4])).tokens == (3, 4)


def test_an_answer_that_does_not_fit_is_cut() -> None:
    config = GenerationConfig(temperature=0, max_tokens=2)
    answer = generate(decoder(9), [1], config, constraint=OneOf([3, 4, 5]))
    assert (answer.tokens, answer.stop_reason) == ((3, 4), StopReason.MAX_TOKENS)


def test_rules_that_want_nothing_get_nothing() -> None:
    play = decoder(9)
    assert generate(play, [1], GREEDY, constraint=OneOf([])).tokens == ()
    assert play.calls == []


def test_rules_may_know_fewer_or_more_tokens_than_the_model() -> None:
    for size in (6, 40):
        assert generate(decoder(9), [1], GREEDY, constraint=OneOf([3, 4], vocab_size=size)).tokens == (3, 4)


def test_logits_that_are_not_finite_are_an_error_as_without_rules() -> None:
    row = np.zeros(32, np.float32)
    row[20] = np.nan
    with pytest.raises(InvalidLogits):
        generate(ScriptedDecoder([row]), [1], GREEDY, constraint=OneOf([3]))


def test_forbidding_all_that_the_rules_allow_is_an_error() -> None:
    config = GenerationConfig(temperature=0, logit_bias={3: -np.inf})
    with pytest.raises(InvalidGenerationConfig, match="logit_bias"):
        generate(decoder(9), [1], config, constraint=OneOf([3]))


def test_a_failing_constraint_is_the_error_of_its_request_alone() -> None:
    with Scheduler(HistoryDecoder()) as scheduler:
        broken = scheduler.submit(GenerationRequest([1], GREEDY, constraints=lambda: OneOf()))
        other = scheduler.submit(GenerationRequest([1], GREEDY, constraints=lambda: OneOf([3, 4])))
        with pytest.raises(ConstraintFailure):
            broken.result()
        assert other.result()[0].tokens == (3, 4)


def test_each_choice_of_a_request_has_rules_of_its_own_and_traffic_changes_nothing() -> None:
    answers = [(1, 2, 3), (1, 3, 2), (2, 1), (3, 3, 3, 3), (4,)]
    config = GenerationConfig(temperature=3, seed=5)
    with Scheduler(HistoryDecoder()) as scheduler:
        request = GenerationRequest([1, 2], config, n=4, constraints=lambda: OneOf(*answers))
        free = scheduler.submit(GenerationRequest([1, 2], config))
        together = [answer.tokens for answer in scheduler.submit(request).result()]
        alone = [
            scheduler.submit(
                GenerationRequest([1, 2], config, choice=i, constraints=lambda: OneOf(*answers))
            ).result()[0]
            for i in range(4)
        ]
        assert together == [answer.tokens for answer in alone]
        assert set(together) <= set(answers)
        free.result()


class Form(OneOf):
    """Follows one text, of which all tokens of a kind follow those before without a choice."""

    def forced(self) -> Sequence[int]:
        rest = self._answers[0][self._length :]
        end = next((at for at, token in enumerate(rest) if token % 2), len(rest))
        return rest[:end]


FORM = [1, 2, 4, 6, 3, 5, 8, *range(10, 32, 2), *range(10, 32, 2), 9]


@pytest.mark.parametrize("config", [GREEDY, GenerationConfig(seed=1, repetition_penalty=1.5)])
@pytest.mark.parametrize("most", [2, 5, 100])
def test_tokens_that_must_come_are_filled_in_and_change_nothing(config: GenerationConfig, most: int) -> None:
    config = GenerationConfig.from_mapping({"max_tokens": most}, config)
    expected = generate(HistoryDecoder(), [1, 2], config, constraint=OneOf(FORM))
    for rules in (OneOf, Form):
        with Scheduler(HistoryDecoder()) as scheduler:
            request = GenerationRequest([1, 2], config, constraints=lambda: rules(FORM))  # noqa: B023
            others = [scheduler.submit(GenerationRequest([3, i], config)) for i in range(2)]
            (answer,) = scheduler.submit(request).result()
            assert (answer.tokens, answer.stop_reason) == (expected.tokens, expected.stop_reason)
            for i, other in enumerate(others):
                assert other.result()[0].tokens == generate(HistoryDecoder(), [3, i], config).tokens
    assert len(expected.tokens) == min(most, len(FORM))


def hear(seen: list[int | None], event: Event) -> bool:
    seen.append(event.token if isinstance(event, Piece) else None)
    return True


def test_filling_in_saves_steps_and_is_told_token_by_token() -> None:
    counts = []
    for rules in (OneOf, Form):
        seen: list[int | None] = []
        with Scheduler(HistoryDecoder()) as scheduler:
            request = GenerationRequest([1, 2], GREEDY, constraints=lambda: rules(FORM))  # noqa: B023
            scheduler.submit(request, partial(hear, seen)).result()
            counts.append(sum(scheduler.snapshot().totals.batch_sizes.values()))
        assert [token for token in seen if token is not None] == FORM
    assert counts[1] < counts[0] / 2
