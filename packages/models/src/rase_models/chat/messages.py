"""Checking a conversation and bringing it into the one shape that templates are given."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from rase_core.errors import InvalidConversation

ROLES = ("system", "developer", "user", "assistant", "tool")

THOUGHTS = ("reasoning_content", "thinking", "reasoning")
"""What a message's thought may be called; the first is what most templates read."""

Message = dict[str, object]

_DEPTH = 32
_SURROGATE = re.compile("[\ud800-\udfff]")


def plain_messages(messages: Sequence[Mapping[str, object]], *, knows_developer: bool) -> list[Message]:
    """Return copies of messages made of plain JSON values, each with a role and its content as one string.

    Text parts are joined by newlines, keys with the value None are left out, a thought is given under each
    name for it that templates read, and `developer` becomes `system` where the template does not know it. An
    assistant that calls tools needs no content. Raises InvalidConversation naming the index of the message.
    """
    if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence):
        raise InvalidConversation(f"messages: expected a list of messages, found {_kind(messages)}")
    if not messages:
        raise InvalidConversation("messages: expected at least one message, found none")
    return [_message(i, message, knows_developer=knows_developer) for i, message in enumerate(messages)]


def _message(index: int, message: object, *, knows_developer: bool) -> Message:
    if not isinstance(message, Mapping):
        raise InvalidConversation(
            f"expected an object with role and content, found {_kind(message)}", index=index
        )
    role = _role(index, message)
    found = {
        key: plain(value, index) for key, value in message.items() if key != "content" and value is not None
    }
    found["role"] = "system" if role == "developer" and not knows_developer else role
    if not (role == "assistant" and message.get("content") is None and message.get("tool_calls")):
        found["content"] = _content(index, message)
    return _with_thought(found) if role == "assistant" else found


def _with_thought(message: Message) -> Message:
    """Return a message with its thought under the names that templates know it by."""
    thought = next((message[name] for name in THOUGHTS if name in message), None)
    if thought is None:
        return message
    # The template of gpt-oss, which is the one that reads `thinking`, refuses it beside content and calls.
    old = {} if message.get("content") and message.get("tool_calls") else {"thinking": thought}
    return {**old, **message, "reasoning_content": thought}


def _role(index: int, message: Mapping[str, object]) -> str:
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidConversation(f"unknown role {role!r}, expected one of {', '.join(ROLES)}", index=index)
    return role


def _content(index: int, message: Mapping[str, object]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return _whole(content, index)
    if content is None:
        raise InvalidConversation("content is missing", index=index)
    if not _is_list(content):
        raise InvalidConversation(
            f"content: expected a string or a list of text parts, found {_kind(content)}", index=index
        )
    return "\n".join(_text(index, i, part) for i, part in enumerate(content))


def _text(index: int, position: int, part: object) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    text = part.get("text") if isinstance(part, Mapping) else None
    if kind != "text" or not isinstance(text, str):
        found = f"a part of type {kind!r}" if isinstance(kind, str) and kind != "text" else _kind(part)
        raise InvalidConversation(
            f'content[{position}]: expected {{"type": "text", "text": ...}}, found {found}', index=index
        )
    return _whole(text, index)


def _whole(text: str, index: int | None) -> str:
    """Return a text; raises InvalidConversation for half of a surrogate pair in it."""
    if not text.isascii() and (lost := _SURROGATE.search(text)):
        raise InvalidConversation(f"a text has the lone surrogate {lost[0]!r}", index=index)
    return str(text)


def plain(value: object, index: int | None, depth: int = 0) -> object:
    """Return a copy of a JSON value in the plain types; InvalidConversation when it is none."""
    if depth > _DEPTH:
        raise InvalidConversation(f"values nested more than {_DEPTH} deep", index=index)
    if isinstance(value, str):
        return _whole(value, index)
    if value is None or isinstance(value, bool) or type(value) is int:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, Mapping):
        return {_whole(str(key), index): plain(item, index, depth + 1) for key, item in value.items()}
    if _is_list(value):
        return [plain(item, index, depth + 1) for item in value]
    raise InvalidConversation(f"expected what JSON has, found {_kind(value)}", index=index)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _kind(value: object) -> str:
    if isinstance(value, Mapping):
        return f"an object with the keys {', '.join(map(repr, value)) or '(none)'}"[:200]
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}, which is no number that JSON has"
    return "null" if value is None else f"{type(value).__name__} {value!r}"[:80]
