"""Types of fields: strict, bounded, and never silently ignored."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

MOST_STOPS = 64
MOST_LOGPROBS = 20
MOST_BAD_WORDS = 1024
MOST_BIASES = 300_000
DRAWN_SEED = -1
"""What Ollama and llama-server take for "draw one", and have as their default."""


class Strict(BaseModel):
    """A JSON object whose keys are known and whose values have exactly their types."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


def only(*allowed: object) -> BeforeValidator:
    """Accept null and these values, which change nothing; refuse the rest as unsupported."""

    def check(value: object) -> object:
        if value is None or any(type(value) is type(a) and value == a for a in allowed):
            return value
        raise PydanticCustomError("unsupported_parameter", "{allowed}", {"allowed": list(allowed)})

    schema = WithJsonSchema({"enum": [None, *allowed]})
    # The types tell 1 from true, which are equal, so that typing does not take one alias for the other.
    return BeforeValidator(check, json_schema_input_type=Annotated[object, schema, tuple(map(type, allowed))])


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


def _drawn(value: int) -> int | None:
    return None if value == DRAWN_SEED else value


Choices = Annotated[int, Field(ge=1)]
"""How many answers a prompt gets; as many as an engine may run at once, which it says itself."""
Seed = Annotated[
    int,
    AfterValidator(_drawn),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": DRAWN_SEED}]}),
]
"""A seed, or -1 for none, as clients of Ollama and llama-server say it."""
TopLogprobs = Annotated[int, Field(ge=0, le=MOST_LOGPROBS)]
Bias = Annotated[dict[str, float], AfterValidator(_biases)]
Stops = Annotated[
    list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str]), Field(max_length=MOST_STOPS)
]
StopTokens = Annotated[list[int], Field(max_length=MOST_STOPS)]
BadWord = Annotated[object, BeforeValidator(_bad_word, json_schema_input_type=str | list[int])]
BadWords = Annotated[list[BadWord], Field(max_length=MOST_BAD_WORDS)]

Nothing = Annotated[object, only()]
"""A parameter of which only null is understood."""
No = Annotated[object, only(False)]
NoList = Annotated[object, only([])]
NoText = Annotated[object, only("")]
Ignored = object
"""A parameter that cannot change the text, of whatever value."""
