"""A real model held to formats: what it writes is what was asked for, whatever the sampling."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path

import pytest
from rase_core.errors import UnenforceableFormat
from rase_core.generation import StopReason
from rase_core.sampling import GenerationConfig
from rase_core.scheduler.snapshot import Totals
from rase_models import AsyncEngine, Engine
from rase_models.constraints import ResponseFormat

pytest.importorskip("numba", reason="needs rase-models[cpu]")

Check = Callable[[object], bool]
Schema = Mapping[str, object]

WORD = {"type": "string", "maxLength": 12}
MESSAGES = [{"role": "user", "content": "Describe a person who lives in Oslo as JSON."}]
GREEDY = GenerationConfig(temperature=0, max_tokens=300)
WILD = GenerationConfig(temperature=3, top_k=0, top_p=1, min_p=0, max_tokens=300, seed=3)
CONFIGS = (GREEDY, GenerationConfig(seed=1, max_tokens=300), WILD)


def record(**properties: Schema) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def is_record(**kinds: type) -> Check:
    return lambda value: isinstance(value, dict) and {k: type(v) for k, v in value.items()} == kinds


SCHEMAS: tuple[tuple[Schema, Check], ...] = (
    (record(name=WORD, age={"type": "integer", "minimum": 0, "maximum": 150}), is_record(name=str, age=int)),
    (record(city={"enum": ["Oslo", "Bergen"]}), lambda v: v in ({"city": "Oslo"}, {"city": "Bergen"})),
    (record(born={"type": "string", "format": "date"}), lambda v: bool(date.fromisoformat(v["born"]))),  # type: ignore[index]
    (record(tags={"type": "array", "items": WORD, "minItems": 2, "maxItems": 3}), is_record(tags=list)),
    (record(inner=record(deep=record(flag={"type": "boolean"}))), is_record(inner=dict)),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 3, "maxItems": 3}, lambda v: len(v) == 3),  # type: ignore[arg-type]
    ({"type": "integer", "minimum": 10, "maximum": 99}, lambda v: 10 <= v <= 99),  # type: ignore[operator]
    ({"type": ["boolean", "null"]}, lambda v: v is None or isinstance(v, bool)),
    ({"anyOf": [{"const": "a"}, {"const": 2}]}, lambda v: v in ("a", 2)),
    ({"type": "string", "pattern": "^[A-Z][a-z]{2,8}$"}, lambda v: isinstance(v, str) and v.istitle()),
    (record(score={"type": "number", "minimum": 0, "maximum": 1}), lambda v: 0 <= v["score"] <= 1),  # type: ignore[index]
    (
        {"$defs": {"p": record(x={"type": "integer", "maximum": 9, "minimum": 0})}, "$ref": "#/$defs/p"},
        is_record(x=int),
    ),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("store"), "cpu", threads=2) as engine:
        engine.import_model(smollm2_path, "m")
        yield engine


def settled(engine: Engine) -> Totals:
    """Return what was computed once nothing is: a step counts when its answers have been told."""
    deadline = time.monotonic() + 30
    while (snapshot := engine.load("m").snapshot()).decoding or snapshot.prefilling or snapshot.waiting:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return snapshot.totals


@pytest.mark.parametrize(("schema", "check"), SCHEMAS)
def test_an_answer_is_what_the_schema_says_and_ends_by_itself(
    engine: Engine, schema: Schema, check: Check
) -> None:
    form = ResponseFormat.json_schema(schema)
    for config in CONFIGS:
        answer = engine.chat("m", MESSAGES, config, response_format=form)
        assert answer.stop_reason is StopReason.STOP_TOKEN, answer.text
        assert check(json.loads(answer.text)), answer.text


@pytest.mark.parametrize("config", CONFIGS)
def test_patterns_choices_and_grammars_are_kept(engine: Engine, config: GenerationConfig) -> None:
    forms = (
        (ResponseFormat.choice(["red", "green"]), ("red", "green")),
        (ResponseFormat.regex("No|Yes!"), ("No", "Yes!")),
        (ResponseFormat.grammar('root ::= "a" ("b" | "c") "!"'), ("ab!", "ac!")),
    )
    for form, texts in forms:
        assert engine.generate("m", "My answer:", config, response_format=form).text in texts


def test_the_same_seed_gives_the_same_answer_in_company_and_alone(engine: Engine) -> None:
    form = ResponseFormat.json_schema(SCHEMAS[0][0])
    alone = [engine.chat("m", MESSAGES, WILD, choice=i, response_format=form).tokens for i in range(3)]
    together = engine.chat_choices("m", MESSAGES, 3, WILD, response_format=form)
    assert [answer.tokens for answer in together] == alone
    assert len(set(alone)) == 3


def test_an_answer_that_is_cut_off_says_so(engine: Engine) -> None:
    short = GenerationConfig(temperature=0, max_tokens=3)
    answer = engine.chat("m", MESSAGES, short, response_format=ResponseFormat.json_schema(SCHEMAS[0][0]))
    assert answer.stop_reason is StopReason.MAX_TOKENS


def test_a_stream_has_the_same_text(engine: Engine) -> None:
    form = ResponseFormat.json_schema(SCHEMAS[0][0])
    whole = engine.chat("m", MESSAGES, GREEDY, response_format=form).text
    assert "".join(engine.stream_chat("m", MESSAGES, GREEDY, response_format=form)) == whole


def test_awaited_answers_keep_to_formats_too(engine: Engine) -> None:
    form = ResponseFormat.choice(["red", "green"])

    async def ask() -> str:
        return (await AsyncEngine(engine).chat("m", MESSAGES, response_format=form)).text

    assert asyncio.run(ask()) in ("red", "green")


def test_what_cannot_be_enforced_is_refused_before_anything_is_computed(engine: Engine) -> None:
    engine.generate("m", "Hello", GenerationConfig(max_tokens=3, ignore_eos=True))
    totals = settled(engine)
    with pytest.raises(UnenforceableFormat, match="uniqueItems"):
        engine.chat("m", MESSAGES, response_format=ResponseFormat.json_schema({"uniqueItems": True}))
    assert settled(engine) == totals
