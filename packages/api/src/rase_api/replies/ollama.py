"""Answers of Ollama's /api/chat and /api/generate: lines of JSON."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from time import perf_counter

from rase_core.generation import Generation, StopReason
from rase_core.json_text import NotJson, parse_json, whole_text
from rase_models.chat.parts import ArgumentPiece, Part, ToolCall
from rase_models.chat.reply import Reply

from rase_api.dialects import OLLAMA, Json
from rase_api.replies.logprobs import chat_logprobs
from rase_api.replies.writer import NDJSON, Told, line
from rase_api.schemas.ollama import OllamaRequest

Content = Callable[[Reply], Json]
"""How an endpoint writes an answer, or a piece of it."""

DONE_REASONS: Mapping[StopReason, str] = {
    StopReason.STOP_TOKEN: "stop",
    StopReason.STOP_STRING: "stop",
    StopReason.CANCELLED: "stop",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTEXT_FULL: "length",
}


def chat_content(reply: Reply) -> Json:
    """Write a reply as /api/chat does."""
    message: Json = {"role": "assistant", "content": reply.content, **_thought(reply)}
    if reply.tool_calls:
        message["tool_calls"] = [_called(call) for call in reply.tool_calls]
    return {"message": message}


def generate_content(reply: Reply) -> Json:
    """Write a reply as /api/generate does, which has no tools."""
    return {"response": reply.content, **_thought(reply)}


def _thought(reply: Reply) -> Json:
    return {"thinking": reply.reasoning} if reply.reasoning else {}


def _called(call: ToolCall) -> Json:
    function = {"index": call.index, "name": call.name, "arguments": json.loads(call.arguments)}
    return {"id": call.id, "function": function}


def now() -> str:
    """Write the time."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


class OllamaWriter:
    """Writes an answer as one object, or as lines of pieces with the cost in the last one."""

    media_type = NDJSON
    quiet = b""  # a line must be an object, and an object would be a piece of the answer

    def __init__(self, body: OllamaRequest, content: Content) -> None:
        self._body, self._content = body, content
        self._started = perf_counter()
        self._call: list[Part] = []
        self._told: Told = ()

    def whole(self, generations: Sequence[Generation], replies: Sequence[Reply]) -> Json:
        """Write the whole answer."""
        (generation,), (reply,) = generations, replies
        return self._object(reply, generation.logprobs or ()) | self._end_of(generation)

    def only_loaded(self, reason: str) -> Json:
        """Write the answer to a request without a prompt."""
        return self._object(Reply("")) | {"done": True, "done_reason": reason}

    def started(self, index: int, prompt_tokens: int) -> Iterator[bytes]:
        """Write nothing yet."""
        yield from ()

    def text(self, index: int, text: str, told: Told = (), count: int = 0) -> Iterator[bytes]:
        """Write a piece of text."""
        yield from self._whole_call()
        yield line(self._object(Reply(text), told) | {"done": False})

    def thought(self, index: int, text: str, told: Told = ()) -> Iterator[bytes]:
        """Write a piece of thought."""
        yield from self._whole_call()
        yield line(self._object(Reply("", text), told) | {"done": False})

    def called(self, index: int, call: ToolCall, told: Told = ()) -> Iterator[bytes]:
        """Write nothing until the call is whole: clients want its arguments as an object."""
        yield from self._whole_call()
        self._call, self._told = [call], told

    def argued(self, index: int, piece: ArgumentPiece, told: Told = ()) -> Iterator[bytes]:
        """Write nothing yet."""
        self._call.append(piece)
        self._told += told
        yield from ()

    def finished(self, index: int, generation: Generation, told: Told = ()) -> Iterator[bytes]:
        """Write why and at what cost the answer has ended; a call that was cut off is left out."""
        yield from self._whole_call()
        yield line(self._object(Reply(""), told) | self._end_of(generation))

    def end(self) -> Iterator[bytes]:
        """Write nothing more."""
        yield from ()

    def failed(self, error: BaseException) -> Iterator[bytes]:
        """Write an error as the last line."""
        yield line(OLLAMA.envelope(error, self._body.names))

    def _whole_call(self) -> Iterator[bytes]:
        reply, told = Reply.of(self._call), self._told
        self._call, self._told = [], ()
        if reply.tool_calls and _is_object(reply.tool_calls[0].arguments):
            yield line(self._object(reply, told) | {"done": False})

    def _object(self, reply: Reply, told: Told = ()) -> Json:
        logprobs = {"logprobs": chat_logprobs(told)} if told else {}
        return {"model": self._body.model, "created_at": now(), **self._content(reply), **logprobs}

    def _end_of(self, generation: Generation) -> Json:
        """Tell tokens and nanoseconds; what was neither prompt, answer nor waiting was loading."""
        total = perf_counter() - self._started
        working = generation.prefill_seconds + generation.decode_seconds + generation.queued_seconds
        return {
            "done": True,
            "done_reason": DONE_REASONS[generation.stop_reason],
            "total_duration": _nanoseconds(total),
            "load_duration": _nanoseconds(max(total - working, 0.0)),
            "prompt_eval_count": generation.prompt_tokens,
            "prompt_eval_duration": _nanoseconds(generation.prefill_seconds),
            "eval_count": len(generation.tokens),
            "eval_duration": _nanoseconds(generation.decode_seconds),
        }


def _is_object(text: str) -> bool:
    """Tell whether arguments are what a line can have: what clients cannot read would end their streams."""
    try:
        return isinstance(whole_text(parse_json(text)), dict)
    except NotJson:
        return False


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
