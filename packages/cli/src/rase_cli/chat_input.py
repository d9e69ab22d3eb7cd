"""Conversations, tools and variables of templates, as a person gives them, mostly as JSON."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rase_core.json_text import NotJson, parse_json

from rase_cli.prompts import read_prompt, read_text

if TYPE_CHECKING:
    from rase_models.chat.tool_calls.tool import Tool

_MESSAGES = "a list of messages, or an object with one as `messages`"
_TOOLS = 'a list of {"type": "function", "function": {"name": ...}}'
_NO_VARIABLES = frozenset(("messages", "tools", "add_generation_prompt", "continue_final_message"))

Messages = Sequence[Mapping[str, object]]


def read_messages(prompt: str | None, file: Path | None, system: str | None) -> Messages:
    """Return the conversation: that of a file, or the prompt as a user's message, after the system's text.

    Raises click.UsageError for no conversation or two, and for a file that is no JSON of one.
    """
    if file is not None:
        file = _named(file)
        if prompt is not None or system is not None:
            raise click.UsageError("give either --messages, or PROMPT and --system")
        return _messages(_parsed(read_text(file), str(file), _MESSAGES), file)
    text = read_prompt(prompt)
    if text is None:
        raise click.UsageError("no conversation: give PROMPT, --messages, or pipe a prompt in")
    before = [] if system is None else [{"role": "system", "content": system}]
    return [*before, {"role": "user", "content": text}]


def read_tools(file: Path | None) -> "tuple[Tool, ...]":
    """Return the tools of a file in the form of OpenAI's API; click.UsageError when it has another."""
    if file is None:
        return ()
    from rase_models.chat.tool_calls.tool import Tool

    file = _named(file)
    given = _parsed(read_text(file), str(file), _TOOLS)
    if not isinstance(given, list) or not all(_is_function(item) for item in given):
        raise click.UsageError(f"{file}: expected {_TOOLS}")
    functions = [item["function"] for item in given]
    return tuple(
        Tool(item["name"], item.get("description") or "", item.get("parameters") or {}) for item in functions
    )


def read_variables(text: str | None) -> Mapping[str, object]:
    """Return further variables of a template, given as a JSON object; click.UsageError when it is none."""
    if text is None:
        return {}
    given = _parsed(text, "--kwargs", "a JSON object")
    if not isinstance(given, dict):
        raise click.UsageError(f"--kwargs: expected a JSON object, found {text[:80]}")
    for name in sorted(_NO_VARIABLES & given.keys()):
        raise click.UsageError(f"--kwargs: {name!r} is not a variable of templates alone")
    return given


def _named(file: Path) -> Path:
    """Return the file that is meant by its name or, as the options for texts have it, by @ and its name."""
    return file if file.exists() else Path(str(file).removeprefix("@"))


def _messages(given: object, file: Path) -> Messages:
    messages = given.get("messages") if isinstance(given, dict) else given
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise click.UsageError(f"{file}: expected {_MESSAGES}")
    for message in messages:
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list):
            raise click.UsageError(f"{file}: expected a list as tool_calls, found {json.dumps(calls)[:80]}")
        for call in calls:
            _parse_arguments(call, file)
    return messages


def _parse_arguments(call: object, file: Path) -> None:
    """Make an object of arguments that are JSON text, as OpenAI's API has them."""
    function = call.get("function") if isinstance(call, dict) else None
    if isinstance(function, dict) and isinstance(function.get("arguments"), str):
        function["arguments"] = _parsed(function["arguments"], f"{file}: arguments of a call", "JSON")


def _is_function(item: object) -> bool:
    function = item.get("function") if isinstance(item, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _parsed(text: str, source: str, expected: str) -> object:
    try:
        return parse_json(text)
    except NotJson as error:
        what = f"not JSON: {error}" if text else "empty"
        raise click.UsageError(f"{source}: {what}; expected {expected}") from error
