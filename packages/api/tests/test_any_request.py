"""Whatever the description allows, and much that it does not, is answered as it says: never by a 500."""

import json
import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rase_api.description import BODIES, STREAMS, described
from rase_api.dialects import ANTHROPIC, OLLAMA, dialect_at

Schema = dict[str, Any]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
COMMON = {"model": "demo", "max_tokens": 2, "stream": False}
"""What most requests say, so that many get as far as an answer."""


def values(schema: Schema, schemas: Schema, depth: int = 0) -> st.SearchStrategy[object]:
    """Make what a schema allows, now and then something else."""
    allowed = _allowed(schema, schemas, depth)
    return st.integers(0, 24).flatmap(lambda chance: ANYTHING if chance == 0 else allowed)


def _allowed(schema: Schema, schemas: Schema, depth: int) -> st.SearchStrategy[object]:
    if depth > 4:
        return st.none()
    if "$ref" in schema:
        return values(schemas[str(schema["$ref"]).rpartition("/")[2]], schemas, depth + 1)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return st.one_of([values(one, schemas, depth) for one in schema[several]])
    make = MAKERS.get(str(schema.get("type")))
    return make(schema, schemas, depth) if make else ANYTHING


def _numbers(schema: Schema, *_: object) -> st.SearchStrategy[object]:
    least, most = schema.get("minimum", -3), schema.get("maximum", 3)
    return st.integers(least, max(most, least)) if schema["type"] == "integer" else st.floats(least, most)


def _lists(schema: Schema, schemas: Schema, depth: int) -> st.SearchStrategy[object]:
    items = values(schema.get("items") or {}, schemas, depth + 1)
    return st.lists(items, min_size=int(schema.get("minItems", 0)), max_size=3)


def _objects(schema: Schema, schemas: Schema, depth: int) -> st.SearchStrategy[object]:
    known = schema.get("properties")
    if not isinstance(known, dict):
        return st.dictionaries(st.text(max_size=3), ANYTHING, max_size=2)
    made = {name: values(inner, schemas, depth + 1) for name, inner in known.items()}
    required = {name: made[name] for name in schema.get("required", ())}
    others = {name: made[name] for name in made if name not in required}
    some = st.lists(st.sampled_from(sorted(others)), max_size=4, unique=True) if others else st.just([])
    return some.flatmap(
        lambda names: st.fixed_dictionaries(required | {name: others[name] for name in names})
    )


MAKERS: dict[str, Callable[[Schema, Schema, int], st.SearchStrategy[object]]] = {
    "object": _objects,
    "array": _lists,
    "integer": _numbers,
    "number": _numbers,
    "string": lambda *_: st.text(max_size=6),
    "boolean": lambda *_: st.booleans(),
    "null": lambda *_: st.none(),
}


@pytest.fixture(scope="module")
def schemas(client: httpx.Client) -> Schema:
    """The bodies as the server describes them."""
    found: Schema = client.get("/openapi.json").json()["components"]["schemas"]
    return found


def check_error(path: str, response: httpx.Response) -> None:
    """An error is in its API's own form, and names what is wrong."""
    body = response.json()
    dialect = dialect_at(path)
    if dialect is OLLAMA:
        assert isinstance(body["error"], str)
    elif dialect is ANTHROPIC:
        assert body["type"] == "error"
        assert set(body["error"]) == {"type", "message"}
    else:
        assert set(body["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("path", BODIES)
def test_no_body_breaks_the_server(client: httpx.Client, schemas: Schema, path: str) -> None:
    schema: Schema = {"$ref": f"#/components/schemas/{BODIES[path].__name__}"}
    streams = {"application/json", STREAMS.get(path, "application/json")}

    @settings(max_examples=12, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(values(schema, schemas), st.booleans())
    def check(body: object, is_helped: bool) -> None:
        if is_helped and isinstance(body, dict):
            body = body | {name: value for name, value in COMMON.items() if name in body}
            body = body | {"model": "demo"}
        text = json.dumps(body, allow_nan=False) if _is_json(body) else "{}"
        response = client.post(path, content=text, headers={"content-type": "application/json"})
        assert response.status_code < 500, (response.status_code, text)
        assert response.headers["content-type"].partition(";")[0] in streams
        if response.status_code >= 400:
            check_error(path, response)

    check()


def _is_json(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_is_json(inner) for inner in value.values())
    return all(_is_json(inner) for inner in value) if isinstance(value, list) else True


def test_the_description_can_be_made_of_no_routes_at_all() -> None:
    assert described([])["paths"] == {}
