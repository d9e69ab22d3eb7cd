"""Prompts that are not conversations: a text, token ids, or a list of either."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from rase_api.errors import InvalidValue

MOST_PROMPTS = 2048
MOST_ANSWERS = 2048

Prompt = str | tuple[int, ...]


def _as_prompts(value: object) -> object:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        if value and all(type(item) is int for item in value):
            return [tuple(value)]
        return [_prompt(item) for item in value]
    raise PydanticCustomError("prompt_type", "expected a string, a list of strings or a list of token ids")


def _prompt(item: object) -> Prompt:
    if isinstance(item, str):
        return item
    if isinstance(item, list) and all(type(token) is int for token in item):
        return tuple(item)
    raise PydanticCustomError("prompt_type", "each prompt must be a string or a list of token ids")


Prompts = Annotated[
    list[object],
    BeforeValidator(_as_prompts, json_schema_input_type=str | list[str] | list[int] | list[list[int]]),
    Field(min_length=1, max_length=MOST_PROMPTS),
]


def refuse_too_many(prompts: list[object], choices: int, name: str) -> None:
    """Raise InvalidValue, naming the number of choices, for more answers than one request may have.

    That of one prompt has the engine's own bound.
    """
    if len(prompts) > 1 and len(prompts) * choices > MOST_ANSWERS:
        raise InvalidValue(
            f"Invalid value for '{name}': {len(prompts)} prompts of {choices} choices each are more than the "
            f"{MOST_ANSWERS} answers that a request may have.",
            name,
        )


def prompts_of(value: list[object]) -> list[Prompt]:
    """Return the prompts, each a text or token ids."""
    return [prompt for prompt in value if isinstance(prompt, str | tuple)]
