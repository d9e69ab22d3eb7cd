"""The arguments of a whole call between their tags."""

import re
from collections.abc import Iterator

from rase_models.chat.tool_calls.call_format import MalformedCall
from rase_models.chat.tool_calls.quotes import ValueQuotes
from rase_models.chat.tool_calls.tagged_growth import ArgumentTags
from rase_models.chat.tool_calls.tool import Tool


def between_tags(tags: ArgumentTags, text: str, tool: Tool | None) -> "Iterator[tuple[re.Match[str], str]]":
    """Yield the opening and the value of each argument; raises MalformedCall behind the last for other text.

    Takes time as the text is long, whatever a model has written into it.
    """
    at = 0
    while opening := tags.opening.match(text, at):
        find = _end_of_text if tags.is_text(opening, tool) else _end_of_value
        end = find(text, opening.end(), tags.closing)
        if end < 0:
            break
        value, at = text[opening.end() : end], end + len(tags.closing)
        yield opening, tags.unframed(value)
    if text[at:].strip():
        raise MalformedCall(text)


def _end_of_text(text: str, at: int, closing: str) -> int:
    return text.find(closing, at)


def _end_of_value(text: str, at: int, closing: str) -> int:
    """Return where a value ends that may be JSON, whose texts may have the closing tag in them."""
    quotes, first = ValueQuotes(), -1
    while (end := text.find(closing, at)) >= 0:
        quotes.add(text[at:end])
        if quotes.is_broken or not quotes.is_open:
            break
        first = end if first < 0 else first
        at = end + len(closing)
        quotes.add(closing)
    if end < 0 and first >= 0:
        quotes.add(text[at:])
    return first if quotes.is_broken and first >= 0 else end
