"""The sampling parameters of OpenAI's endpoints, and rase's own beside them."""

from collections.abc import Mapping
from typing import ClassVar

from rase_api.faults import Names
from rase_api.fields import BadWords, Bias, Nothing, Seed, Stops, StopTokens
from rase_api.parameters import TextRequest
from rase_api.schemas.nulls import TakesNulls

SAMPLING: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "repeat_penalty": "repetition_penalty",
    "penalty_last_n": "penalty_last_n",
    "repeat_last_n": "penalty_last_n",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "dry_multiplier": "dry_multiplier",
    "dry_base": "dry_base",
    "dry_allowed_length": "dry_allowed_length",
    "dry_penalty_last_n": "dry_penalty_last_n",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "logit_bias": "logit_bias",
    "seed": "seed",
    "stop": "stop",
    "stop_token_ids": "stop_tokens",
    "ignore_eos": "ignore_eos",
}


class SamplingRequest(TextRequest, TakesNulls):
    """How to choose each token and when to stop, and what cannot change the text."""

    sampling: ClassVar[Mapping[str, str]] = SAMPLING

    model: str

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    repeat_penalty: float | None = None
    penalty_last_n: int | None = None
    repeat_last_n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: Nothing = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    logit_bias: Bias | None = None
    bad_words: BadWords | None = None
    seed: Seed | None = None
    stop: Stops | None = None
    stop_token_ids: StopTokens | None = None
    ignore_eos: bool | None = None

    # These cannot change the text, so they are accepted and not used.
    user: str | None = None
    metadata: dict[str, object] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    cache_prompt: bool | None = None

    @property
    def names(self) -> Names:
        """Field of GenerationConfig -> the name by which this request gave it."""
        banning = "bad_words" if self.bad_words and not self.logit_bias else "logit_bias"
        return {**super().names, "logit_bias or bad_words": banning}

    def words(self) -> tuple[str, ...]:
        """Return the bad words that were given as strings; those given as token ids are in `config`."""
        return tuple(word for word in self.bad_words or () if isinstance(word, str))

    def _changes(self) -> dict[str, object]:
        tokens = tuple(word for word in self.bad_words or () if isinstance(word, tuple))
        return super()._changes() | {"bad_words": tokens}
