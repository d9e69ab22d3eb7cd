"""Arguments written one by one as plain text, whose types only the tool's schema tells."""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import cast

from rase_models.chat.tool_calls.grammar import Lark, Symbol, Text, Until
from rase_models.chat.tool_calls.tool import Tool

_LONGEST = 10_000


def typed_arguments(pairs: Iterable[tuple[str, str]], tool: Tool | None) -> Mapping[str, object]:
    """Return arguments with the types that the tool gives them; text stays what is no JSON."""
    properties = properties_of(tool) if tool is not None else {}
    return {key: _typed(text, properties.get(key, {})) for key, text in pairs}


def properties_of(tool: Tool) -> Mapping[str, Mapping[str, object]]:
    """Return the schema of each argument, with what it may refer to."""
    schema = tool.schema
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return {key: value | definitions for key, value in properties.items() if isinstance(value, dict)}


def required_of(tool: Tool) -> frozenset[str]:
    """Return the names of the arguments that must be there."""
    required = tool.schema.get("required")
    return frozenset(cast("list[str]", required) if isinstance(required, list) else ())


def listed(
    arguments: Mapping[str, Sequence[Symbol]], required: Container[str], separator: str
) -> list[Symbol]:
    """Return arguments with a separator between them: those that must be there, then the others."""
    must = [arguments[key] for key in arguments if key in required]
    return _listed(must, [arguments[key] for key in arguments if key not in required], Text(separator))


def _listed(
    must: Sequence[Sequence[Symbol]], may: Sequence[Sequence[Symbol]], separator: Text
) -> list[Symbol]:
    symbols: list[Symbol] = []
    for i, argument in enumerate(must):
        symbols += [*([separator] if i else []), *argument]
    if must:
        for argument in may:
            symbols += [Lark("("), separator, *argument, Lark(")?")]
        return symbols
    for i in range(len(may)):
        symbols += [Lark("|" if i else "("), *_listed(may[i : i + 1], may[i + 1 :], separator)]
    return [*symbols, Lark(")?")] if may else []


def is_text(schema: Mapping[str, object]) -> bool:
    """Whether an argument is a text and nothing else."""
    choices = schema.get("enum")
    are_texts = isinstance(choices, list) and all(isinstance(choice, str) for choice in choices)
    return schema.get("type") == "string" or ("type" not in schema and are_texts)


def text_until(schema: Mapping[str, object], end: str) -> tuple[Symbol, ...]:
    """Return what an argument that is a text looks like up to `end`: one of the texts allowed, or so long.

    Patterns and formats of such texts are not followed: a schema speaks of JSON, which this is not.
    """
    choices, most = schema.get("enum"), schema.get("maxLength")
    if isinstance(choices, list) and choices:
        texts = " | ".join(json.dumps(str(choice), ensure_ascii=False) for choice in choices)
        return Lark(f"({texts})"), Text(end)
    return (Until(end, most if isinstance(most, int) and 0 <= most <= _LONGEST else None),)


def _typed(text: str, schema: Mapping[str, object]) -> object:
    if is_text(schema):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
