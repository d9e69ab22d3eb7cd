"""What is written of a task: a line in the form of OpenAI's batch results, with times and tries."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

from rase_core.errors import ConstraintFailure, EngineError, InvalidLogits, RequestError, TemplateError
from rase_core.generation import Generation, StopReason

from rase_models.batch.lines import InvalidLine
from rase_models.batch.task import BatchResult
from rase_models.request import Conversation

Record = dict[str, object]

FINISH_REASONS: Mapping[StopReason, str] = MappingProxyType(
    {
        StopReason.STOP_TOKEN: "stop",
        StopReason.STOP_STRING: "stop",
        StopReason.MAX_TOKENS: "length",
        StopReason.CONTEXT_FULL: "length",
        StopReason.CANCELLED: "cancelled",
    }
)

STAYS = (RequestError, ConstraintFailure, TemplateError, InvalidLogits)
"""The causes that lie in a task itself: it would fail in the same way whenever it is tried."""


def is_final(record: Record) -> bool:
    """Tell whether a record says all that there is to say of a task: an answer, or an error that stays.

    Lines that are no tasks may be corrected, and other errors may pass. Raises KeyError or TypeError for what
    is no record.
    """
    tries, error = record["tries"], record.get("error")
    if not isinstance(tries, int) or not isinstance(record["line"], int):
        raise TypeError("no record")
    if not tries or not isinstance(record["custom_id"], str):
        return False
    return not isinstance(error, Mapping) or error.get("code") in _names(STAYS)


def _names(classes: Iterable[type]) -> set[str]:
    """Return what these classes and all that derive from them are called."""
    return {name for one in classes for name in (one.__name__, *_names(one.__subclasses__()))}


def record_of(result: BatchResult, line: int) -> Record:
    """Return the record of a task that was worked off."""
    body = None if result.error is not None else _body(result)
    return {
        "id": f"batch_req_{line}",
        "custom_id": result.task.id,
        "line": line,
        "response": None if body is None else {"status_code": 200, "request_id": "", "body": body},
        "error": _error(result.error),
        "started": _time(result.started),
        "ended": _time(result.ended),
        "tries": result.tries,
    }


def record_of_invalid(invalid: InvalidLine) -> Record:
    """Return the record of a line that is no task."""
    return {
        "id": f"batch_req_{invalid.number}",
        "custom_id": invalid.custom_id,
        "line": invalid.number,
        "response": None,
        "error": {"code": type(invalid).__name__, "message": invalid.reason},
        "started": None,
        "ended": None,
        "tries": 0,
    }


def _body(result: BatchResult) -> Record:
    is_chat = isinstance(result.task.question, Conversation)
    return {
        "id": f"{'chatcmpl' if is_chat else 'cmpl'}-{result.task.id}",
        "object": "chat.completion" if is_chat else "text_completion",
        "created": int(result.ended),
        "model": result.task.model_id,
        "choices": [
            {"index": i, **_content(generation, is_chat=is_chat)}
            for i, generation in enumerate(result.generations)
        ],
        "usage": _usage(result.generations),
    }


def _content(generation: Generation, *, is_chat: bool) -> Record:
    text = generation.text
    content: Record = {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
    return content | {"logprobs": None, "finish_reason": FINISH_REASONS[generation.stop_reason]}


def _usage(generations: Sequence[Generation]) -> Record:
    first = generations[0]
    generated = sum(len(generation.tokens) for generation in generations)
    return {
        "prompt_tokens": first.prompt_tokens,
        "completion_tokens": generated,
        "total_tokens": first.prompt_tokens + generated,
        "prompt_tokens_details": {"cached_tokens": first.cached_tokens},
    }


def _error(error: Exception | None) -> Record | None:
    if error is None:
        return None
    message = error.message if isinstance(error, EngineError) else str(error)
    return {"code": type(error).__name__, "message": message}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
