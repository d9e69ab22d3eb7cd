"""The arguments of a whole call between their tags."""

import re
from collections.abc import Iterator

from rase_models.chat.tool_calls.call_format import MalformedCall
from rase_models.chat.tool_calls.growth import ArgumentTags


def between_tags(tags: ArgumentTags, text: str) -> "Iterator[tuple[re.Match[str], str]]":
    """Yield the opening and the value of each argument; raises MalformedCall behind the last for other text.

    Takes time as the text is long, whatever a model has written into it.
    """
    at = 0
    while opening := tags.opening.match(text, at):
        end = text.find(tags.closing, opening.end())
        if end < 0:
            break
        value, at = text[opening.end() : end], end + len(tags.closing)
        yield opening, value.removeprefix("\n").removesuffix("\n") if tags.own_lines else value
    if text[at:].strip():
        raise MalformedCall(text)
