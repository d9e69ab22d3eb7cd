"""What is asked of a scheduler."""

from collections.abc import Callable
from collections.abc import Sequence as Tokens
from dataclasses import dataclass

import numpy as np

from rase_core.answer import Answer, Detokenizer, checked_prompt
from rase_core.constraint import Constraint
from rase_core.deadline import Deadline
from rase_core.decoder import ModelLimits
from rase_core.errors import InvalidParameter
from rase_core.logprobs import Logprobs, PromptLogprobs
from rase_core.sampling import GenerationConfig
from rase_core.scheduler.sequence import Sequence
from rase_core.scheduler.ticket import Ticket


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A prompt to be continued, in one or more ways.

    Attributes:
        detokenizers: makes one for each choice; None for no text.
        constraints: makes one for each choice; None for no rules.
        choice: sets apart the answers of one seed; the n choices have this number and those after it.
        timeout: the most seconds from asking to the end.
        asked: when, by the scheduler's clock; None for when it is submitted.
        logprobs: what is told of probabilities; needs detokenizers.
        prompt_detokenizers: makes one for the prompt's own tokens; None for one like those of the choices.
    """

    prompt: Tokens[int]
    config: GenerationConfig
    detokenizers: Callable[[], Detokenizer] | None = None
    choice: int = 0
    n: int = 1
    timeout: float | None = None
    constraints: Callable[[], Constraint] | None = None
    asked: float | None = None
    logprobs: Logprobs | None = None
    prompt_detokenizers: Callable[[], Detokenizer] | None = None

    def check(self, most_choices: int) -> None:
        """Raise InvalidParameter for an impossible number of choices."""
        if not 1 <= self.n <= most_choices:
            raise InvalidParameter("n", self.n, f"a whole number of 1 to {most_choices}")

    def deadline(self, submitted: float) -> Deadline:
        """Return when the time is over. Raises InvalidParameter for a timeout of nothing."""
        return Deadline(self.timeout, submitted if self.asked is None else self.asked)

    def sequence(self, ticket: Ticket, number: int, limits: ModelLimits) -> Sequence:
        """Return the sequence of the first choice, with the other choices as its siblings, which share what
        is told of the prompt.

        Raises ContextOverflow, InvalidParameter, InvalidGenerationConfig.
        """
        prompt = checked_prompt(self.prompt, limits)
        told = self._prompt_logprobs(prompt)
        first, *siblings = [
            Sequence(ticket, (number, i), self._answer(prompt, limits, i, told), np.array(prompt, np.int32))
            for i in range(self.n)
        ]
        first.siblings = siblings
        return first

    def _answer(
        self, prompt: list[int], limits: ModelLimits, index: int, told: PromptLogprobs | None
    ) -> Answer:
        detokenizer = self.detokenizers() if self.detokenizers is not None else None
        constraint = self.constraints() if self.constraints is not None else None
        return Answer(
            prompt,
            self.config,
            limits,
            detokenizer,
            self.choice + index,
            constraint,
            self.logprobs,
            told,
        )

    def _prompt_logprobs(self, prompt: list[int]) -> PromptLogprobs | None:
        make = self.prompt_detokenizers or self.detokenizers
        if self.logprobs is None or not self.logprobs.of_prompt or make is None:
            return None
        return PromptLogprobs(prompt, self.logprobs.top, make())
