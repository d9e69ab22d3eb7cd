"""Arguments written one by one as plain text, whose types only the tool's schema tells."""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from rase_core.errors import UnenforceableFormat

from rase_models.chat.tool_calls.grammar import Json, Lark, Part, Symbol, Text, Until
from rase_models.chat.tool_calls.tool import Tool
from rase_models.constraints.response_format import TOOLS

_LONGEST = 10_000
_MOST_ARGUMENTS = 2000
_NOTHING = Json({"enum": []})


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
    given = {key: {} if value is True else value for key, value in properties.items()}
    return {key: value | definitions for key, value in given.items() if isinstance(value, dict)}


def required_of(tool: Tool) -> frozenset[str]:
    """Return the names of the arguments that must be there."""
    required = tool.schema.get("required")
    return frozenset(cast("list[str]", required) if isinstance(required, list) else ())


def listed(
    arguments: Mapping[str, Sequence[Symbol]], required: Container[str], separator: str
) -> list[Symbol]:
    """Return arguments with a separator between them: those that must be there, then the others.

    Raises UnenforceableFormat for more than can be followed.
    """
    if len(arguments) > _MOST_ARGUMENTS:
        raise UnenforceableFormat(TOOLS, f"a tool has more than {_MOST_ARGUMENTS} arguments")
    must = [arguments[key] for key in arguments if key in required]
    may = [arguments[key] for key in arguments if key not in required]
    if not must:
        return _first_and_later(may, Text(separator))
    symbols = [symbol for argument in must for symbol in (Text(separator), *argument)][1:]
    for argument in may:
        symbols += [Lark("("), Text(separator), *argument, Lark(")?")]
    return symbols


def _first_and_later(may: Sequence[Sequence[Symbol]], separator: Text) -> list[Symbol]:
    """Return arguments that may all lack: one that comes first, and those behind it.

    They are halved and halved again, so that the grammar grows no faster than they do, and is not deep.
    """
    ways = [_Optional.of(Part(symbols), separator) for symbols in may]
    while len(ways) > 1:
        pairs = zip(ways[::2], ways[1::2], strict=False)
        ways = [one.then(other) for one, other in pairs] + ways[len(ways) & ~1 :]
    return [Lark("("), ways[0].begun, Lark(")?")] if ways else []


@dataclass(frozen=True, slots=True)
class _Optional:
    """Arguments that may lack: `begun` where at least one comes and is the first, `later` behind others."""

    begun: Part
    later: Part

    @classmethod
    def of(cls, argument: Part, separator: Text) -> "_Optional":
        return cls(argument, Part([Lark("("), separator, argument, Lark(")?")]))

    def then(self, other: "_Optional") -> "_Optional":
        begun = Part([self.begun, other.later, Lark("|"), other.begun])
        return _Optional(begun, Part([self.later, other.later]))


def is_text(schema: Mapping[str, object]) -> bool:
    """Whether an argument is a text and nothing else."""
    choices = choices_of(schema)
    are_texts = isinstance(choices, list) and all(isinstance(choice, str) for choice in choices)
    return schema.get("type") == "string" or ("type" not in schema and are_texts)


def text_until(schema: Mapping[str, object], end: str, ends: tuple[str, ...]) -> tuple[Symbol, ...]:
    """Return what an argument that is a text looks like up to `end`: one of the texts allowed, or such a one.

    It has none of the `ends` in it, but those texts may, which `refuse_unwritable` is for. Formats of
    such texts are not followed. Where no text is allowed, nothing satisfies what is returned.
    """
    choices = choices_of(schema)
    if choices is not None:
        texts = [json.dumps(choice, ensure_ascii=False) for choice in choices if isinstance(choice, str)]
        return (Lark(f"({' | '.join(texts)})"), Text(end)) if texts else (_NOTHING, Text(end))
    least, most, pattern = (schema.get(key) for key in ("minLength", "maxLength", "pattern"))
    until = Until(end, most if isinstance(most, int) and 0 <= most <= _LONGEST else None, without=ends)
    until = replace(until, least=least) if isinstance(least, int) and 0 <= least <= _LONGEST else until
    return (replace(until, pattern=pattern) if isinstance(pattern, str) else until,)


def unsaid(tool: Tool) -> str | None:
    """Return the keyword of a tool's schema that arguments one by one would not be held to; else None."""
    schema = tool.schema
    found = next((key for key in schema if key in _OF_THE_WHOLE), None)
    return found if required_of(tool) <= properties_of(tool).keys() else "required"


_OF_THE_WHOLE = frozenset(
    [
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "enum",
        "const",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "propertyNames",
        "minProperties",
        "maxProperties",
    ]
)


def choices_of(schema: Mapping[str, object]) -> list[object] | None:
    """Return the values that a schema enumerates; None where it does not."""
    if "const" in schema:
        return [schema["const"]]
    choices = schema.get("enum")
    return choices if isinstance(choices, list) and choices else None


def _typed(text: str, schema: Mapping[str, object]) -> object:
    if is_text(schema):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
