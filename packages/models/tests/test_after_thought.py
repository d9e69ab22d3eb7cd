from collections.abc import Sequence

import numpy as np
from rase_core.constraint import Allowed
from rase_core.generation import generate
from rase_core.sampling import GenerationConfig
from rase_core.testing import ScriptedDecoder
from rase_models.constraints.after_thought import AfterThought

BEGIN, END, EOS = 1, 2, 3
GREEDY = GenerationConfig(temperature=0, max_tokens=12)


class Only:
    """Wants one token and then the end."""

    def __init__(self, token: int) -> None:
        self._token = token
        self.may_end = self.is_complete = False

    def allowed(self) -> Allowed:
        mask = np.zeros(32, np.bool_)
        mask[self._token] = not self.may_end
        return mask

    def forced(self) -> Sequence[int]:
        return ()

    def accept(self, token: int) -> None:
        assert token == self._token
        self.may_end = self.is_complete = True


def answer(*script: int, begin: int | None) -> tuple[int, ...]:
    text_tokens = np.ones(32, np.bool_)
    text_tokens[EOS] = False
    decoder = ScriptedDecoder(script, eos_tokens=frozenset({EOS}))
    rules = AfterThought(Only(9), (END,), begin, text_tokens)
    return generate(decoder, [5], GREEDY, constraint=rules).tokens


def test_a_thought_is_free_and_what_follows_is_not() -> None:
    assert answer(20, 21, END, 22, begin=None) == (20, 21, END, 9)


def test_a_thought_may_begin_first_or_not_at_all() -> None:
    assert answer(BEGIN, 20, END, 22, begin=BEGIN) == (BEGIN, 20, END, 9)
    assert answer(9, begin=BEGIN) == (9,)


def test_a_thought_does_not_end_the_answer() -> None:
    assert EOS not in answer(EOS, 20, END, EOS, begin=None)


def test_a_thought_begins_only_at_the_beginning() -> None:
    assert answer(END, BEGIN, begin=None) == (END, 9)
