"""Earlier calls, for templates that teach a format of calls and yet leave the calls of messages out."""

from collections.abc import Mapping, Sequence

from rase_models.chat.messages import Message
from rase_models.chat.tool_calls.call_format import Call, CallFormat, MalformedCall
from rase_models.chat.tool_calls.json_calls import json_object
from rase_models.chat.tool_calls.table import call_format


def with_told_calls(chat: list[Message], template: str) -> list[Message]:
    """Return messages with their calls at the end of their content, as the model itself has written them.

    Nothing changes where the template's source reads calls, or teaches no format that can be told.
    """
    if "tool_calls" in template or not any(message.get("tool_calls") for message in chat):
        return chat
    form = call_format(template)
    return chat if form is None else [_told(message, form) for message in chat]


def _told(message: Message, form: CallFormat) -> Message:
    calls = _calls(message.get("tool_calls"))
    if not calls or form.tell is None:
        return message
    return {**message, "content": f"{message.get('content') or ''}{_text(calls, form)}"}


def _text(calls: Sequence[Call], form: CallFormat) -> str:
    """Return calls as an answer has them."""
    assert form.tell is not None
    told = [form.tell(call) for call in calls]
    if form.is_list:
        return f"{form.begin}[{', '.join(told)}]{form.end}"
    return "\n".join(f"{form.begin}{text}{form.end}" for text in told)


def _calls(given: object) -> list[Call]:
    """Return calls in the shape of OpenAI's; none where one is not."""
    try:
        return [_call(call) for call in given] if isinstance(given, list) else []
    except (MalformedCall, LookupError, TypeError):
        return []


def _call(given: Mapping[str, Mapping[str, object]]) -> Call:
    function = given["function"]
    name, arguments = function["name"], function["arguments"]
    if isinstance(arguments, str):
        arguments = json_object(arguments)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise MalformedCall(str(given))
    return Call(name, arguments)
