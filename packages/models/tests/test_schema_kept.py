"""Schemas of tools are prepared once, however often they come, and each for itself."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import UnenforceableFormat
from rase_models.constraints.schema import Budget, Place, SchemaDocument, prepared, prepared_once

LARGE = {
    "type": "object",
    "properties": {f"p{i}": {"type": ["string", "null"], "enum": ["a", "b", None]} for i in range(150)},
}

schemas = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(("object", "string", ["integer", "null"])),
        "properties": st.dictionaries(
            st.text(max_size=3), st.booleans() | st.just({"minimum": 1.5}), max_size=3
        ),
        "enum": st.lists(
            st.integers() | st.text(max_size=3) | st.none() | st.floats(allow_nan=False), min_size=1
        ),
        "minLength": st.integers(0, 5),
        "not": st.just({"const": 3}),
        "$comment": st.text(max_size=5),
    },
)


def outcome(schema: dict[str, Any], *, is_lenient: bool) -> object:
    """Return what becomes of a schema that is prepared by itself."""
    try:
        return prepared(SchemaDocument(schema), schema, Place(), is_lenient=is_lenient)
    except UnenforceableFormat as error:
        return error.message


@given(schemas, st.booleans())
def test_what_was_kept_is_what_preparing_gives(schema: dict[str, Any], is_lenient: bool) -> None:
    for _ in range(2):
        try:
            found: object = prepared_once(schema, is_lenient=is_lenient)
        except UnenforceableFormat as error:
            found = error.message
        assert found == outcome(schema, is_lenient=is_lenient)


def test_a_schema_that_comes_again_takes_no_time() -> None:
    start = time.process_time()
    first = prepared_once(LARGE)
    alone = time.process_time() - start
    start = time.process_time()
    for _ in range(10):
        assert prepared_once(dict(LARGE)) is first
    assert (time.process_time() - start) / 10 < alone


def test_schemas_of_one_request_share_its_budget_also_when_they_are_kept() -> None:
    kinds = [{"type": "object", "properties": {f"p{i}": {"type": "integer"}}} for i in range(60)]
    many = [{"properties": {f"a{i}": {"oneOf": kinds}}} for i in range(24)]
    for _ in range(2):
        for schema in many:
            prepared_once(schema, is_lenient=True)
        budget = Budget()
        with pytest.raises(UnenforceableFormat, match="too many possibilities"):
            for schema in many:
                prepared_once(schema, is_lenient=True, budget=budget)


def test_equal_values_of_other_kinds_are_other_schemas() -> None:
    assert prepared_once({"const": 1}) != prepared_once({"const": "1"})
    assert repr(prepared_once({"enum": [True]})) != repr(prepared_once({"enum": [1]}))


@pytest.mark.parametrize("depth", [500, 5_000, 100_000])
def test_deep_schemas_are_refused_or_prepared_and_never_crash(depth: int) -> None:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": schema}
    for _ in range(2):
        with pytest.raises(UnenforceableFormat):
            prepared_once({"properties": {"a": schema}})


def test_what_is_no_json_is_prepared_all_the_same() -> None:
    with pytest.raises(UnenforceableFormat, match="properties"):
        prepared_once({"properties": {1, 2}})
    assert prepared_once({"description": object, "type": "string"}, is_lenient=True)
