"""The lines of a batch file, in the form of OpenAI's: a custom_id, an endpoint's URL and its body."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from rase_core.errors import EngineError
from rase_core.json_text import NotJson, parse_json, whole_text
from rase_core.model_file import irregularity
from rase_core.sampling import GenerationConfig

from rase_models.batch.task import BatchTask
from rase_models.constraints import ResponseFormat
from rase_models.request import Completion, Conversation, Question, Terms

DefaultsOf = Callable[[str], GenerationConfig]

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "max_completion_tokens": "max_tokens",
        "repeat_penalty": "repetition_penalty",
        "repeat_last_n": "penalty_last_n",
        "stop_token_ids": "stop_tokens",
    }
)
"""Other names of fields of GenerationConfig."""

IGNORED = frozenset(
    {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}
    | {"prompt_cache_retention", "cache_prompt"}
)
"""What cannot change the text."""

NO_OPS: Mapping[str, object] = MappingProxyType({"stream": False, "logprobs": False, "echo": False})
"""What is accepted with this value alone."""

_DRAWN_SEED = -1
_OWN = frozenset({"model", "messages", "prompt", "n", "continue_final_message", "response_format"})
_KEYS = ("custom_id", "method", "url", "body")


class UnreadableTasks(EngineError):
    """The tasks are in no regular file."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}", "write the tasks to a file")
        self.path, self.reason = path, reason


class InvalidLine(EngineError):
    """A line of a batch file is no task: its number, and why."""

    def __init__(self, path: Path, number: int, reason: str, custom_id: str | None = None) -> None:
        super().__init__(f"{path}, line {number}: {reason}")
        self.path, self.number, self.reason, self.custom_id = path, number, reason, custom_id


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A line and its number, from 1; `task` is what is wrong with it, where it is none."""

    number: int
    task: BatchTask | InvalidLine


class BatchFile:
    """A file of tasks, one a line; blank lines are none. A custom_id that comes again is invalid."""

    def __init__(self, path: Path, defaults_of: DefaultsOf) -> None:
        self.path, self._defaults_of = path, defaults_of

    def count(self) -> int:
        """Return the number of lines that are not blank."""
        with self._open() as file:
            return sum(bool(line.strip()) for line in file)

    def __iter__(self) -> Iterator[BatchLine]:
        first: dict[str, int] = {}
        with self._open() as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield BatchLine(number, self._task(number, line, first))

    def _open(self) -> BinaryIO:
        if reason := irregularity(self.path.stat().st_mode):  # a pipe can be read but once
            raise UnreadableTasks(self.path, reason)
        return self.path.open("rb")

    def _task(self, number: int, line: bytes, first: dict[str, int]) -> BatchTask | InvalidLine:
        custom_id = None
        try:
            values = _parsed(line)
            custom_id = _checked_id(values.get("custom_id"), number, first)
            return _task(custom_id, values, self._defaults_of)
        except (ValueError, EngineError) as error:
            return InvalidLine(self.path, number, str(error), custom_id)


def _parsed(line: bytes) -> dict[str, object]:
    try:
        values = whole_text(parse_json(line))
    except NotJson as error:
        raise ValueError(f"no JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"expected an object, found {type(values).__name__}")
    return values


def _checked_id(custom_id: object, number: int, first: dict[str, int]) -> str:
    if not isinstance(custom_id, str) or not custom_id:
        raise ValueError("custom_id: expected a string")
    if first.setdefault(custom_id, number) != number:
        raise ValueError(f"custom_id {custom_id!r} is that of line {first[custom_id]}, too")
    return custom_id


def _task(custom_id: str, values: Mapping[str, object], defaults_of: DefaultsOf) -> BatchTask:
    _refuse_unknown(values, frozenset(_KEYS), "key")
    url, body = values.get("url"), values.get("body")
    if not isinstance(url, str) or url not in _QUESTIONS:
        raise ValueError(f"url: expected {' or '.join(_QUESTIONS)}")
    if values.get("method", "POST") != "POST":
        raise ValueError("method: expected POST")
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise ValueError("body: expected an object with a model")
    given = {key: value for key, value in body.items() if not _asks_for_nothing(key, value)}
    terms = Terms(
        config=_config(given, defaults_of(body["model"])),
        n=_count(given.get("n", 1)),
        response_format=_format(given.get("response_format")),
    )
    return BatchTask(custom_id, body["model"], _QUESTIONS[url](given, terms))


def _asks_for_nothing(key: str, value: object) -> bool:
    """Whether it is null, or the seed that is as none at all, as the server takes it."""
    is_no_seed = key == "seed" and type(value) is int and value == _DRAWN_SEED
    return value is None or is_no_seed


def _config(given: Mapping[str, object], defaults: GenerationConfig) -> GenerationConfig:
    settings: dict[str, object] = {}
    known = defaults.to_mapping()
    for key, value in given.items():
        if key in NO_OPS and value is not NO_OPS[key]:  # 0 equals False, and asks for log probabilities
            raise ValueError(f"{key}: only {json.dumps(NO_OPS[key])} is supported")
        name = ALIASES.get(key, key)
        if settings.get(name, value) != value:
            raise ValueError(f"{key}: is {name} by another name, and has another value")
        if name in known:
            settings[name] = value
        elif key not in _OWN | IGNORED | NO_OPS.keys():
            raise ValueError(f"body: unknown parameter {key!r}")
    if isinstance(settings.get("stop"), str):
        settings["stop"] = [settings["stop"]]
    return defaults.merged(settings)


def _format(given: object) -> ResponseFormat | None:
    match given:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return ResponseFormat.json_object()
        case {"type": "json_schema", "json_schema": {"schema": dict() as schema}}:
            return ResponseFormat.json_schema(schema)
        case _:
            raise ValueError("response_format: expected the type text, json_object or json_schema")


def _count(n: object) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ValueError("n: expected a whole number of at least 1")
    return n


def _conversation(body: Mapping[str, object], terms: Terms) -> Question:
    messages, continues = body.get("messages"), body.get("continue_final_message", False)
    if not isinstance(messages, list) or "prompt" in body:
        raise ValueError("body: expected messages, and no prompt")
    if not isinstance(continues, bool):
        raise ValueError("continue_final_message: expected true or false")
    return Conversation(messages, terms, continues)


def _completion(body: Mapping[str, object], terms: Terms) -> Question:
    prompt = body.get("prompt")
    if not isinstance(prompt, str | list) or "messages" in body:
        raise ValueError("body: expected a prompt of text or token ids, and no messages")
    return Completion(prompt, terms)


def _refuse_unknown(values: Mapping[str, object], known: frozenset[str], what: str) -> None:
    for key in values:
        if key not in known:
            raise ValueError(f"unknown {what} {key!r}")


_QUESTIONS: Mapping[str, Callable[[Mapping[str, object], Terms], Question]] = MappingProxyType(
    {"/v1/chat/completions": _conversation, "/v1/completions": _completion}
)
