"""What of a tool's schema a format of calls cannot write so that it is read again."""

import re
from collections.abc import Iterator, Mapping, Sequence

from rase_core.errors import UnenforceableFormat, shown

from rase_models.chat.tool_calls.call_format import CallFormat
from rase_models.chat.tool_calls.grammar import Until, any_text
from rase_models.chat.tool_calls.tool import Tool
from rase_models.chat.tool_calls.typed_arguments import choices_of, is_text, properties_of, text_until
from rase_models.constraints.response_format import TOOLS
from rase_models.constraints.schema import Place

_SIGN = re.compile(r"<|\\[xu]")
"""What a pattern has that demands a `<`, with which the ends of texts begin."""


def refuse_unwritable(form: CallFormat, tools: Sequence[Tool]) -> None:
    """Raise UnenforceableFormat for a name or a text among a tool's arguments that would end too soon."""
    for tool in tools:
        fault = next(_faults(form, tool), None)
        if fault is not None:
            raise UnenforceableFormat(TOOLS, f"{tool.name}: {fault}, in the calls that the model writes")


def doubtful_texts(form: CallFormat, tools: Sequence[Tool]) -> Iterator[tuple[str, str]]:
    """Yield what an error calls a text whose pattern may demand an end of texts, and its grammar in Lark."""
    for tool in tools if form.ends else ():
        for key, schema in properties_of(tool).items():
            text = _doubtful(schema, form.ends)
            if text is not None:
                place = Place().at("properties", key, "pattern").pointer
                yield f"{tool.name}: {shown(text.pattern)} at {place}", f"start: TEXT\nTEXT: {any_text(text)}"


def _doubtful(schema: Mapping[str, object], ends: tuple[str, ...]) -> Until | None:
    (text, *_) = text_until(schema, ends[0], ends) if is_text(schema) else (None,)
    is_pattern = isinstance(text, Until) and text.pattern is not None and _SIGN.search(text.pattern)
    return text if isinstance(text, Until) and is_pattern else None


def _faults(form: CallFormat, tool: Tool) -> Iterator[str]:
    if not form.is_apart:
        return
    for key, schema in properties_of(tool).items():
        if not form.keys.fullmatch(key) or any(end in key for end in form.ends):
            yield f"the name {shown(key)} at #/properties cannot be written"
        for place, text in _texts(key, schema) if form.ends and is_text(schema) else ():
            end = next((end for end in form.ends if end in text), None)
            if end is not None:
                yield f"{shown(text)} at {place} has {end!r} in it, which ends texts"


def _texts(key: str, schema: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the texts that an argument may be, where it enumerates them, with their places."""
    place = Place().at("properties", key)
    for at, choice in enumerate(choices_of(schema) or ()):
        if isinstance(choice, str):
            yield place.at("const").pointer if "const" in schema else place.at("enum", at).pointer, choice
