"""What a request asks of a generation, and the range of each parameter."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Self

from rase_core.errors import InvalidGenerationConfig
from rase_core.sampling.ranges import (
    Boolean,
    Integer,
    Number,
    Range,
    TokenBias,
    TokenSequences,
    TokenSet,
    Words,
)

MAX_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConfig:
    """How long to generate, how to choose each token, and when to stop.

    Raises InvalidGenerationConfig naming parameter, value and range. Lists are taken for tuples and sets. Of
    the parameters that count tokens back from the end, -1 means all and 0 none; penalties count the prompt's
    tokens too.

    max_tokens: the most tokens to generate.
    temperature: 0 takes the likeliest token (greedy); 1 draws by the model's own probabilities.
    top_k: draw among the k likeliest, 0 for all.
    top_p: draw among the likeliest that have this probability together, 1 for all.
    min_p: draw among those with at least this share of the likeliest one's probability.
    repetition_penalty, presence_penalty, frequency_penalty, penalty_last_n: see RepetitionPenalty.
    dry_*: see DryPenalty; 0 as multiplier turns it off.
    xtc_probability: how often all tokens of at least xtc_threshold but the least likely of them are left out.
    logit_bias: added to the logits of token ids, -inf forbids.
    bad_words: token sequences that must not be completed.
    seed: the same seed gives the same tokens.
    stop_tokens: end the answer besides the model's own end tokens; `ignore_eos` turns the latter off.
    stop: strings that end the answer and are not part of it.
    """

    max_tokens: int = 256
    temperature: float = 0.7
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_last_n: int = 64
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: frozenset[int] = frozenset()
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    bad_words: tuple[tuple[int, ...], ...] = ()
    seed: int = 0
    stop_tokens: frozenset[int] = frozenset()
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Check every field; raises InvalidGenerationConfig naming parameter, value and range."""
        for name, allowed in _RANGES.items():
            object.__setattr__(self, name, allowed.check(name, getattr(self, name)))

    @property
    def narrows(self) -> bool:
        """Whether a token is not drawn from all."""
        return bool(self.top_k or self.top_p < 1 or self.min_p)

    def check_tokens(self, vocab_size: int) -> None:
        """Raise InvalidGenerationConfig naming the first token id that a vocabulary of this size lacks."""
        for name, tokens in self._tokens().items():
            beyond = min((token for token in tokens if token >= vocab_size), default=None)
            if beyond is not None:
                raise InvalidGenerationConfig(name, beyond, f"token ids of 0 to {vocab_size - 1}")

    def _tokens(self) -> Mapping[str, Iterable[int]]:
        return {
            "stop_tokens": self.stop_tokens,
            "dry_sequence_breakers": self.dry_sequence_breakers,
            "logit_bias": self.logit_bias,
            "bad_words": itertools.chain.from_iterable(self.bad_words),
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, object], base: Self | None = None) -> Self:
        """Return `base` (the defaults when None) with the fields replaced that a JSON or TOML table names.

        Token ids may be strings where a table needs string keys. Raises InvalidGenerationConfig for an
        unknown name or an invalid value.
        """
        for name, value in values.items():
            if name not in _RANGES:
                raise InvalidGenerationConfig("parameter", name, f"one of {', '.join(_RANGES)}")
            _RANGES[name].check(name, value)
        return replace(base if base is not None else cls(), **values)  # type: ignore[arg-type]

    def merged(self, values: Mapping[str, object]) -> Self:
        """Return this with the values of a request over it, as `from_mapping`, which says what it raises.

        What ends an answer or must not come in it (stop, stop_tokens, bad_words) comes on top of its own.
        """
        config = self.from_mapping(values, self)
        return replace(
            config,
            stop=tuple(dict.fromkeys((*self.stop, *config.stop))),
            stop_tokens=self.stop_tokens | config.stop_tokens,
            bad_words=tuple(dict.fromkeys((*self.bad_words, *config.bad_words))),
        )

    def to_mapping(self) -> dict[str, object]:
        """Return every field by name, as `from_mapping` takes them."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


_RANGES: Mapping[str, Range] = {
    "max_tokens": Integer(0, MAX_COUNT),
    "temperature": Number(0, 1e6),
    "top_k": Integer(0, MAX_COUNT),
    "top_p": Number(0, 1),
    "min_p": Number(0, 1),
    "repetition_penalty": Number(0.01, 100),
    "presence_penalty": Number(-100, 100),
    "frequency_penalty": Number(-100, 100),
    "penalty_last_n": Integer(-1, MAX_COUNT),
    "dry_multiplier": Number(0, 1e6),
    "dry_base": Number(1, 100),
    "dry_allowed_length": Integer(1, MAX_COUNT),
    "dry_penalty_last_n": Integer(-1, MAX_COUNT),
    "dry_sequence_breakers": TokenSet(),
    "xtc_probability": Number(0, 1),
    "xtc_threshold": Number(0, 1),
    "logit_bias": TokenBias(Number(-math.inf, 1e6)),
    "bad_words": TokenSequences(),
    "seed": Integer(0, 2**64 - 1),
    "stop_tokens": TokenSet(),
    "stop": Words(),
    "ignore_eos": Boolean(),
}
