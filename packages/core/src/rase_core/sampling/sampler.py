"""Chooses the next token of one sequence.

The steps, in order: logit bias and forbidden words, repetition penalties, DRY; then, unless greedy: top_k,
top_p, min_p, XTC, temperature, and the draw. Greedy (temperature 0) takes the largest logit after the
penalties, the lowest id among equals, and draws no random number.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rase_core.constraint import Allowed
from rase_core.decoder import Logits
from rase_core.errors import InvalidGenerationConfig, InvalidLogits
from rase_core.sampling.candidates import draw_from_all, narrowed
from rase_core.sampling.config import GenerationConfig
from rase_core.sampling.dry import DryPenalty
from rase_core.sampling.penalties import BadWords, Bias, RepetitionPenalty
from rase_core.sampling.random import uniforms


class _Penalty(Protocol):
    def accept(self, token: int) -> None: ...

    def tokens(self) -> NDArray[np.intp]: ...

    def apply(self, logits: Logits) -> None: ...


class Sampler:
    """Chooses tokens of one sequence; not shared between sequences.

    `choice` tells the answers to one request apart. `prompt` holds the tokens that the penalties see before
    any is accepted. Every token that becomes part of the sequence is to be accepted.
    """

    def __init__(self, config: GenerationConfig, choice: int = 0, prompt: Sequence[int] = ()) -> None:
        self._config = config
        self._choice = choice
        self._penalties = _penalties(config, prompt)
        self._named_tokens = {
            "logit_bias": max(config.logit_bias, default=0),
            "bad_words": max((word[-1] for word in config.bad_words), default=0),
        }

    @property
    def takes_likeliest(self) -> bool:
        """Whether `sample` returns the likeliest token of the row as it is."""
        return self._config.temperature == 0 and not self._penalties

    @property
    def config(self) -> GenerationConfig:
        """How it chooses."""
        return self._config

    @property
    def has_penalties(self) -> bool:
        """Whether it changes logits before it looks at them."""
        return bool(self._penalties)

    def uniforms(self, position: int) -> tuple[float, float]:
        """Return the numbers in [0, 1) that decide on the token and on XTC."""
        uniform, chance, *_ = uniforms(self._config.seed, self._choice, position)
        return uniform, chance

    def penalised_tokens(self) -> NDArray[np.intp]:
        """Return the tokens whose logits `penalise` may change, ascending, each once; there are penalties."""
        return np.unique(np.concatenate([penalty.tokens() for penalty in self._penalties]))

    def penalise(self, logits: Logits) -> None:
        """Change logits, float32 [vocab], in place by all penalties."""
        for penalty in self._penalties:
            penalty.apply(logits)

    def sample(self, logits: Logits, position: int, allowed: Allowed | None = None) -> int:
        """Return the token for a position (the prompt's first token has 0); logits are float32 [vocab].

        It is one of those `allowed`, bool of at most [vocab]; those beyond its end are not. Raises
        InvalidLogits when a logit is not finite, InvalidGenerationConfig when every token is forbidden.
        """
        self._check(logits, position)
        if allowed is not None:
            logits = _only(logits, allowed)
        if self._penalties:
            logits = self._penalised(logits)
        if self._config.temperature == 0:
            return int(np.argmax(logits))
        return self._draw(logits, position)

    def accept(self, token: int) -> None:
        """Count a token as part of the sequence."""
        for penalty in self._penalties:
            penalty.accept(token)

    def _check(self, logits: Logits, position: int) -> None:
        # A NaN survives max and min, so these two say what isfinite over all would.
        if not (np.isfinite(logits.max()) and np.isfinite(logits.min())):
            raise InvalidLogits(position, int(np.count_nonzero(~np.isfinite(logits))))

    def _penalised(self, logits: Logits) -> Logits:
        for name, token in self._named_tokens.items():
            if token >= logits.size:
                raise InvalidGenerationConfig(name, token, f"token ids of 0 to {logits.size - 1}")
        changed = logits.copy()
        self.penalise(changed)
        if changed.max() == -np.inf:
            name = "logit_bias" if self._config.logit_bias else "bad_words"
            raise InvalidGenerationConfig(name, "every token forbidden", "at least one token allowed")
        return changed

    def _draw(self, logits: Logits, position: int) -> int:
        config = self._config
        uniform, chance = self.uniforms(position)
        if not (config.narrows or config.xtc_probability):
            return draw_from_all(logits, config.temperature, uniform)
        candidates = narrowed(logits, config.top_k, config.top_p, config.min_p)
        if chance < config.xtc_probability:
            candidates = candidates.exclude_top(config.xtc_threshold)
        return candidates.draw(config.temperature, uniform)


def _only(logits: Logits, allowed: Allowed) -> Logits:
    """Return a copy of logits in which all but the allowed tokens are impossible."""
    narrowed = np.full_like(logits, -np.inf)
    np.copyto(narrowed[: allowed.size], logits[: allowed.size], where=allowed)
    return narrowed


def _penalties(config: GenerationConfig, prompt: Sequence[int]) -> tuple[_Penalty, ...]:
    penalties: list[_Penalty] = []
    if config.logit_bias:
        penalties.append(Bias(config.logit_bias))
    if config.bad_words:
        penalties.append(BadWords(config.bad_words))
    if _repetition_counts(config):
        penalties.append(_repetition_penalty(config))
    for penalty in penalties:
        for token in prompt:
            penalty.accept(token)
    if config.dry_multiplier and config.dry_penalty_last_n:
        penalties.append(_dry_penalty(config, prompt))
    return tuple(penalties)


def _repetition_counts(config: GenerationConfig) -> bool:
    changes = (config.repetition_penalty != 1, config.presence_penalty, config.frequency_penalty)
    return bool(config.penalty_last_n) and any(changes)


def _repetition_penalty(config: GenerationConfig) -> RepetitionPenalty:
    return RepetitionPenalty(
        config.repetition_penalty, config.presence_penalty, config.frequency_penalty, config.penalty_last_n
    )


def _dry_penalty(config: GenerationConfig, prompt: Sequence[int]) -> DryPenalty:
    dry = DryPenalty(
        config.dry_multiplier,
        config.dry_base,
        config.dry_allowed_length,
        config.dry_penalty_last_n,
        config.dry_sequence_breakers,
    )
    dry.accept_all(prompt)
    return dry
