"""What chat and completions share: wire names of parameters, strict types, and the way to a GenerationConfig.

Ranges are not known here: `GenerationConfig` validates them. A null means the default, always.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError
from rase_core.sampling import GenerationConfig

from rase_api.errors import InvalidValue
from rase_api.validation import request_error

MOST_CHOICES = 128
MOST_STOPS = 64
MOST_BAD_WORDS = 1024
MOST_BIASES = 300_000

# Wire name -> field of GenerationConfig. Where two names share a field, either may be used.
SAMPLING: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
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


def only(*allowed: object) -> BeforeValidator:
    """Accept null and these values, which change nothing; refuse the rest as unsupported."""

    def check(value: object) -> object:
        if value is None or any(type(value) is type(a) and value == a for a in allowed):
            return value
        raise PydanticCustomError("unsupported_parameter", "{allowed}", {"allowed": list(allowed)})

    return BeforeValidator(check)


def _biases(value: dict[str, float]) -> dict[int, float]:
    if len(value) > MOST_BIASES:
        raise PydanticCustomError("too_many", f"at most {MOST_BIASES} entries are allowed")
    for key in value:
        if not (key.isascii() and key.isdigit() and len(key) <= 9):
            raise PydanticCustomError("bias_key", "keys must be token ids in decimal digits")
    return {int(key): bias for key, bias in value.items()}


def _as_list(value: object) -> object:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return value
    raise PydanticCustomError("stop_type", "expected a string or a list of strings")


def _bad_word(value: object) -> object:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, list) and value and all(type(token) is int for token in value):
        return tuple(value)
    raise PydanticCustomError("bad_word_type", "each must be a string or a list of token ids, and not empty")


Bias = Annotated[dict[str, float], AfterValidator(_biases)]
Stops = Annotated[
    list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str]), Field(max_length=MOST_STOPS)
]
StopTokens = Annotated[list[int], Field(max_length=MOST_STOPS)]
BadWord = Annotated[object, BeforeValidator(_bad_word, json_schema_input_type=str | list[int])]
BadWords = Annotated[list[BadWord], Field(max_length=MOST_BAD_WORDS)]


class Strict(BaseModel):
    """A JSON object whose keys are known and whose values have exactly their types."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


class StreamOptions(Strict):
    """What a stream carries besides the text."""

    include_usage: bool | None = None
    include_obfuscation: Annotated[object, only(False)] = None


class Parameters(Strict):
    """What every request for text may say."""

    prompt_name: ClassVar[str] = "prompt"

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES)] | None = None

    max_tokens: int | None = None
    max_completion_tokens: int | None = None
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
    dry_sequence_breakers: Annotated[object, only()] = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    logit_bias: Bias | None = None
    bad_words: BadWords | None = None
    seed: int | None = None
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

    @classmethod
    def parse(cls, body: Mapping[str, object]) -> Self:
        """Check a request's body; raises a RequestError that names the parameter at fault."""
        try:
            request = cls.model_validate(body)
        except ValidationError as error:
            raise request_error(error) from error
        if request.stream_options is not None and not request.stream:
            raise InvalidValue("'stream_options' is only allowed when 'stream' is true.", "stream_options")
        request._refuse_contradictions()
        return request

    @property
    def choices(self) -> int:
        """How many answers each prompt gets."""
        return 1 if self.n is None else self.n

    @property
    def is_streamed(self) -> bool:
        """Whether the answer comes as server-sent events."""
        return bool(self.stream)

    @property
    def has_usage_chunk(self) -> bool:
        """Whether a stream ends with a chunk that counts tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def names(self) -> Mapping[str, str]:
        """Field of GenerationConfig -> the name by which this request gave it."""
        given = {SAMPLING[name]: name for name in self._given()}
        banning = "bad_words" if self.bad_words and not self.logit_bias else "logit_bias"
        return {**given, "prompt": self.prompt_name, "logit_bias or bad_words": banning}

    def config(self, defaults: GenerationConfig) -> GenerationConfig:
        """Put this request's values over a model's defaults; stops are added to those of the model.

        `bad_words` given as token ids are included; strings need a tokenizer, see `words`.
        Raises InvalidGenerationConfig.
        """
        changes: dict[str, object] = {SAMPLING[name]: value for name, value in self._given().items()}
        for name, merge in MERGES.items():
            if name in changes:
                changes[name] = merge(getattr(defaults, name), changes[name])
        tokens = tuple(word for word in self.bad_words or () if isinstance(word, tuple))
        changes["bad_words"] = (*defaults.bad_words, *tokens)
        return GenerationConfig.from_mapping(changes, defaults)

    def words(self) -> tuple[str, ...]:
        """Return the bad words that were given as strings."""
        return tuple(word for word in self.bad_words or () if isinstance(word, str))

    def _given(self) -> dict[str, object]:
        values = ((name, getattr(self, name)) for name in SAMPLING)
        return {name: value for name, value in values if value is not None}

    def _refuse_contradictions(self) -> None:
        seen: dict[str, str] = {}
        given = self._given()
        for name, value in given.items():
            other = seen.setdefault(SAMPLING[name], name)
            if given[other] != value:
                raise InvalidValue(f"'{other}' and '{name}' mean the same, but have different values.", name)


MERGES: Mapping[str, Callable[..., object]] = {
    "stop": lambda default, given: tuple(dict.fromkeys((*default, *given))),
    "stop_tokens": lambda default, given: frozenset(default) | frozenset(given),
}
