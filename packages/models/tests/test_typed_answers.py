"""Answers as objects of Pydantic's classes, and schemas of many kinds, by a model whose weights mean nothing.

What is written is right whatever the model: it is read by Pydantic, which knows nothing of the rules.
"""

import asyncio
import enum
import json
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from rase_core.errors import RequestTimeout, UnenforceableFormat
from rase_core.generation import StopReason
from rase_core.sampling import GenerationConfig
from rase_models import AsyncEngine, Engine, ResponseFormat, UnfinishedAnswer
from rase_models.testing import write_tiny_model

pytest.importorskip("numba", reason="needs rase-models[cpu]")
pydantic = pytest.importorskip("pydantic")

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator  # noqa: E402

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>"
)
MESSAGES = [{"role": "user", "content": "Hi"}]
Short = Annotated[str, Field(max_length=5)]
Digit = Annotated[int, Field(ge=0, le=9)]


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Cat(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["cat"]
    lives: Digit


class Dog(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["dog"]
    name: Short


class Person(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, Field(min_length=1, max_length=6, pattern="^[a-z ]+$")]
    age: Annotated[int, Field(gt=17, lt=100)]
    colour: Colour
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    tags: Annotated[list[Short], Field(min_length=1, max_length=2)]


class Odd(BaseModel):
    age: Digit

    @field_validator("age")
    @classmethod
    def never(cls, age: int) -> int:
        raise ValueError("no age is right")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("store")
    weights = write_tiny_model(folder / "tiny.gguf", context_length=4096)
    with Engine(folder / "store", "cpu", threads=1) as engine:
        engine.import_model(weights, "m", chat_template=CHATML)
        yield engine


def drawn(seed: int, most: int = 600) -> GenerationConfig:
    return GenerationConfig(temperature=1, top_k=0, top_p=1, min_p=0, seed=seed, max_tokens=most)


def test_an_answer_is_an_object_of_the_class(engine: Engine) -> None:
    for seed in range(8):
        person: Person = engine.chat_as("m", MESSAGES, Person, drawn(seed))
        assert isinstance(person, Person) and isinstance(person.pet, Cat | Dog)


def test_a_stream_has_the_object_at_its_end(engine: Engine) -> None:
    with engine.stream_chat_as("m", MESSAGES, Person, drawn(1)) as stream:
        with pytest.raises(UnfinishedAnswer, match="Person"):
            _ = stream.value
        text = "".join(stream)
        person: Person = stream.value
    assert person == Person.model_validate_json(text) == engine.chat_as("m", MESSAGES, Person, drawn(1))


def test_awaited_answers_are_objects_too(engine: Engine) -> None:
    async def ask() -> tuple[Person, Person]:
        asynchronous = AsyncEngine(engine)
        whole = await asynchronous.chat_as("m", MESSAGES, Person, drawn(1))
        async with asynchronous.stream_chat_as("m", MESSAGES, Person, drawn(1)) as stream:
            assert "".join([text async for text in stream])
            return whole, stream.value

    whole, streamed = asyncio.run(ask())
    assert whole == streamed == engine.chat_as("m", MESSAGES, Person, drawn(1))


def test_the_time_for_an_object_begins_before_the_model_is_loaded(tmp_path: Path) -> None:
    weights = write_tiny_model(tmp_path / "tiny.gguf", context_length=4096)
    slow = Engine(tmp_path / "store", "cpu", threads=1, progress=lambda _: time.sleep(0.3))

    async def ask() -> None:
        await AsyncEngine(slow).chat_as("m", MESSAGES, Person, drawn(1), timeout=0.2)

    with slow as engine:
        engine.import_model(weights, "m", chat_template=CHATML)
        with pytest.raises(RequestTimeout):
            engine.chat_as("m", MESSAGES, Person, drawn(1), timeout=0.2)
        engine.unload()
        with pytest.raises(RequestTimeout):
            asyncio.run(ask())


def test_an_answer_that_is_cut_off_is_no_object(engine: Engine) -> None:
    with pytest.raises(UnfinishedAnswer, match="max_tokens") as caught:
        engine.chat_as("m", MESSAGES, Person, drawn(1, most=5))
    assert caught.value.generation is not None and len(caught.value.generation.tokens) == 5


def test_what_the_class_does_not_like_is_its_own_error(engine: Engine) -> None:
    with pytest.raises(pydantic.ValidationError, match="no age is right"):
        engine.chat_as("m", MESSAGES, Odd, drawn(1))


def test_a_class_that_cannot_be_enforced_is_refused_by_keyword_and_place(engine: Engine) -> None:
    class Loose(BaseModel):
        words: set[str]

    with pytest.raises(UnenforceableFormat, match="'uniqueItems' at #/properties/words"):
        engine.chat_as("m", MESSAGES, Loose)


TYPES: tuple[Any, ...] = (
    bool,
    Digit | None,
    Annotated[float, Field(ge=-1, le=1, multiple_of=0.25)],
    Annotated[str, Field(pattern="^[A-Z]{2}-[0-9]{3}$")],
    Colour,
    Literal["a", 1, None, True],
    date,
    UUID,
    tuple[bool, Short, Digit],
    Annotated[list[tuple[Digit, bool]], Field(max_length=3)],
    dict[Literal["a", "b"], Digit],
    Annotated[set[Literal["a", "b", "c"]], Field(min_length=2)],
    Annotated[frozenset[Colour], Field(min_length=1)],
    Annotated[list[Cat | Dog], Field(min_length=1, max_length=2)],
    Cat | Dog | Annotated[list[Digit], Field(max_length=2)],
)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_whatever_the_weights_a_finished_answer_is_of_the_schema_and_another_says_so(
    engine: Engine, kind: Any
) -> None:
    adapter: TypeAdapter[object] = TypeAdapter(kind)
    form = ResponseFormat.json_schema(adapter.json_schema())
    for seed in range(6):
        answer = engine.generate("m", "Say:", drawn(seed), response_format=form)
        assert answer.stop_reason is StopReason.STOP_TOKEN, answer.text
        assert answer.text.count("\n") <= 40
        adapter.validate_json(answer.text)
        short = engine.generate("m", "Say:", drawn(seed, most=2), response_format=form)
        if short.stop_reason is StopReason.STOP_TOKEN:
            adapter.validate_json(short.text)
        else:
            assert short.stop_reason is StopReason.MAX_TOKENS


def test_white_space_has_an_end(engine: Engine) -> None:
    form = ResponseFormat.json_schema({"type": "array", "items": {"enum": [1]}, "minItems": 2, "maxItems": 2})
    likes_spaces = {ord(character): 100.0 for character in " \n"}
    config = GenerationConfig(temperature=0, max_tokens=200, logit_bias=likes_spaces)
    answer = engine.generate("m", "Say:", config, response_format=form)
    assert answer.stop_reason is StopReason.STOP_TOKEN and json.loads(answer.text) == [1, 1]
