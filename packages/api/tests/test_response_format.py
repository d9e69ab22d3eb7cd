"""Answers held to a format over HTTP: what can be asked for, what is refused, and a real model."""

import json
from collections.abc import Iterator
from pathlib import Path

import anthropic
import httpx
import ollama
import openai
import pytest
from pydantic import BaseModel
from rase_api.app import create_app
from rase_api.schemas import ChatRequest
from rase_api.testing import ScriptedEngine, served
from rase_models import Engine
from rase_models.constraints import ResponseFormat

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
COMPLETION = {"model": "demo", "prompt": "Hi"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
NAMED = {"name": "thing", "schema": SCHEMA, "strict": True}
URLS = (("/v1/chat/completions", CHAT), ("/v1/completions", COMPLETION))


def test_a_schema_is_written_out_once_for_a_body() -> None:
    option = {"type": "json_schema", "json_schema": NAMED}
    body = ChatRequest.parse(CHAT | {"response_format": option})
    assert body.constraint() is not None and body.constraint() is body.constraint()


@pytest.mark.parametrize(("url", "body"), URLS)
@pytest.mark.parametrize(
    ("fields", "form"),
    [
        ({}, None),
        ({"response_format": None}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, ResponseFormat.json_object()),
        (
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            ResponseFormat.json_schema(SCHEMA),
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": NAMED}},
            ResponseFormat.json_schema(SCHEMA),
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "any"}}},
            ResponseFormat.json_object(),
        ),
        ({"grammar": 'root ::= "a"'}, ResponseFormat.grammar('root ::= "a"')),
        ({"regex": "a+"}, ResponseFormat.regex("a+")),
        ({"choice": ["a", "b"]}, ResponseFormat.choice(["a", "b"])),
    ],
)
def test_every_way_to_ask_for_a_format_reaches_the_engine(
    client: httpx.Client,
    engine: ScriptedEngine,
    url: str,
    body: dict[str, object],
    fields: dict[str, object],
    form: ResponseFormat | None,
) -> None:
    assert client.post(url, json=body | fields).status_code == 200
    assert engine.formats[-1] == form


@pytest.mark.parametrize(("url", "body"), URLS)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.name"),
        ({"response_format": {"type": "text", "more": 1}}, "response_format.more"),
        ({"response_format": {"type": "text", "schema": SCHEMA}}, "response_format.schema"),
        ({"response_format": {"type": "json_object", "json_schema": NAMED}}, "response_format.json_schema"),
        ({"response_format": "json"}, "response_format"),
        ({"choice": []}, "choice"),
        ({"choice": [1]}, "choice[0]"),
        ({"regex": 1}, "regex"),
        ({"regex": "a", "grammar": 'root ::= "a"'}, "regex"),
        ({"regex": "a", "response_format": {"type": "json_object"}}, "regex"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    client: httpx.Client, url: str, body: dict[str, object], fields: dict[str, object], param: str
) -> None:
    answer = client.post(url, json=body | fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


MESSAGES = CHAT["messages"]
ANTHROPIC = {"model": "demo", "max_tokens": 20, "messages": MESSAGES}
SURFACES = (
    *((url, body, {}) for url, body in URLS),
    ("/v1/responses", {"model": "demo", "input": "Hi"}, {"text": {"format": {"type": "text"}}}),
    ("/v1/messages", ANTHROPIC, {}),
    ("/api/chat", {"model": "demo", "messages": MESSAGES}, {"format": "json"}),
    ("/api/generate", {"model": "demo", "prompt": "Hi"}, {"format": SCHEMA}),
)
SGLANG = {"model": "demo", "text": "Hi"}
OWN_FORMAT = {"type": "json_schema", "schema": SCHEMA}


@pytest.mark.parametrize(("url", "body", "own"), SURFACES)
def test_grammars_patterns_and_choices_can_be_asked_for_everywhere(
    client: httpx.Client, engine: ScriptedEngine, url: str, body: dict[str, object], own: dict[str, object]
) -> None:
    for fields, form in (
        ({"grammar": 'root ::= "a"'}, ResponseFormat.grammar('root ::= "a"')),
        ({"regex": "a+"}, ResponseFormat.regex("a+")),
        ({"choice": ["a", "b"]}, ResponseFormat.choice(["a", "b"])),
    ):
        assert client.post(url, json=body | fields).status_code == 200
        assert engine.formats[-1] == form
        if own:
            answer = client.post(url, json=body | fields | own)
            assert answer.status_code == 400 and "cannot be combined" in answer.text
    assert client.post(url, json=body | {"regex": "a", "choice": ["a"]}).status_code == 400


@pytest.mark.parametrize("fields", [{"output_config": {"format": OWN_FORMAT}}, {"output_format": OWN_FORMAT}])
def test_anthropics_schemas_reach_the_engine(
    client: httpx.Client, engine: ScriptedEngine, fields: dict[str, object]
) -> None:
    assert client.post("/v1/messages", json=ANTHROPIC | fields).status_code == 200
    assert engine.formats[-1] == ResponseFormat.json_schema(SCHEMA)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"output_config": {"format": OWN_FORMAT}, "output_format": OWN_FORMAT}, "output_format"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"output_config": {"effort": "huge"}}, "output_config.effort"),
        ({"output_config": {"format": OWN_FORMAT}, "regex": "a"}, "cannot be combined"),
    ],
)
def test_what_makes_no_sense_to_anthropic_is_refused_by_name(
    client: httpx.Client, fields: dict[str, object], word: str
) -> None:
    answer = client.post("/v1/messages", json=ANTHROPIC | fields)
    assert answer.status_code == 400 and word in answer.json()["error"]["message"]


def test_sglangs_formats_reach_the_engine(client: httpx.Client, engine: ScriptedEngine) -> None:
    for fields, form in (
        ({"json_schema": json.dumps(SCHEMA)}, ResponseFormat.json_schema(SCHEMA)),
        ({"regex": "a+"}, ResponseFormat.regex("a+")),
        ({"ebnf": 'root ::= "a"'}, ResponseFormat.grammar('root ::= "a"')),
        ({"choice": ["a", "b"]}, ResponseFormat.choice(["a", "b"])),
    ):
        assert client.post("/generate", json=SGLANG | {"sampling_params": fields}).status_code == 200
        assert engine.formats[-1] == form


@pytest.fixture(scope="module")
def real_url(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Iterator[str]:
    pytest.importorskip("numba", reason="needs rase-models[cpu]")
    with Engine(tmp_path_factory.mktemp("store"), "cpu", threads=2) as engine:
        engine.import_model(smollm2_path, "demo")
        with served(create_app(engine)) as url:
            yield url


class Person(BaseModel):
    name: str
    is_tall: bool


def test_the_official_client_parses_into_a_class(real_url: str) -> None:
    client = openai.OpenAI(base_url=f"{real_url}/v1", api_key="none", max_retries=0)
    answer = client.chat.completions.parse(
        model="demo",
        messages=[{"role": "user", "content": "Name a person."}],
        response_format=Person,
        max_tokens=200,
        temperature=0,
    )
    assert isinstance(answer.choices[0].message.parsed, Person)


def test_anthropics_client_parses_into_a_class(real_url: str) -> None:
    with anthropic.Anthropic(base_url=real_url, api_key="none", max_retries=0) as client:
        answer = client.messages.parse(
            model="demo",
            messages=[{"role": "user", "content": "Name a person."}],
            output_format=Person,
            max_tokens=200,
        )
    assert isinstance(answer.parsed_output, Person)


def test_ollamas_client_gets_what_its_schema_says(real_url: str) -> None:
    with ollama.Client(real_url) as client:
        answer = client.chat(
            "demo", [{"role": "user", "content": "Name a person."}], format=Person.model_json_schema()
        )
    assert Person.model_validate_json(answer.message.content or "")


def test_streams_keep_to_formats_too(real_url: str) -> None:
    client = openai.OpenAI(base_url=f"{real_url}/v1", api_key="none", max_retries=0)
    stream = client.completions.create(
        model="demo", prompt="A colour:", stream=True, extra_body={"choice": ["red", "green"]}
    )
    assert "".join(chunk.choices[0].text for chunk in stream) in ("red", "green")


UNTOLD = [{"type": "object", "properties": {f"p{i}": {"type": "integer"}}} for i in range(500)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "param", "word"),
    [
        ({"regex": "x*" * 30_000}, "regex", "30000 repetitions"),
        ({"regex": "((a{1000}){1000}){1000}"}, "regex", "too many possibilities"),
        ({"grammar": "start: " + '"x"? ' * 10_000}, "grammar", "10000 repetitions"),
        (
            {"response_format": {"type": "json_object", "schema": {"oneOf": UNTOLD}}},
            "response_format",
            "'oneOf' at #: it has too many possibilities",
        ),
        ({"regex": "("}, "regex", "unclosed"),
        ({"grammar": "root ::= nowhere"}, "grammar", "nowhere"),
        ({"response_format": {"type": "json_object", "schema": {"not": {}}}}, "response_format", "not"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"uniqueItems": True}},
                }
            },
            "response_format",
            "'uniqueItems' at #: ",
        ),
    ],
)
def test_what_cannot_be_enforced_is_refused_with_the_keyword(
    real_url: str, fields: dict[str, object], param: str, word: str, stream: bool
) -> None:
    answer = httpx.post(
        f"{real_url}/v1/chat/completions", json=CHAT | fields | {"stream": stream}, timeout=60
    )
    assert answer.status_code == 400
    error = json.loads(answer.text)["error"]
    assert (error["code"], error["param"]) == ("unenforceable_format", param)
    assert word in error["message"]


@pytest.mark.parametrize(("url", "body"), URLS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grammar", "a" * 65_537),
        ("regex", "a" * 65_537),
        ("choice", ["a" * 3000] * 1000),
        ("response_format", {"type": "json_object", "schema": {"const": "a" * 65_537}}),
    ],
)
def test_the_format_that_is_too_long_is_named(
    client: httpx.Client, url: str, body: dict[str, object], name: str, value: object
) -> None:
    response = client.post(url, json={**body, name: value})
    error = response.json()["error"]
    assert (response.status_code, error["param"], error["code"]) == (400, name, "unenforceable_format")
    assert "at most 65536 are allowed" in error["message"]
