"""Answers of OpenAI's /v1/responses: a response of one message, whole and as events."""

import time
import uuid
from collections.abc import Iterator, Sequence
from itertools import count

from rase_core.generation import Generation, StopReason
from rase_models.chat.reply import Reply

from rase_api.dialects import Json
from rase_api.faults import message_of
from rase_api.replies.cost import timings
from rase_api.replies.writer import KEEP_ALIVE, SSE, TextOnly, typed_sse
from rase_api.schemas.responses import ResponsesRequest
from rase_api.state import ServedModel

CUT_OFF = (StopReason.MAX_TOKENS, StopReason.CONTEXT_FULL)


class ResponsesWriter(TextOnly):
    """Writes a response; every event of a stream has the next sequence number."""

    media_type = SSE
    quiet = KEEP_ALIVE

    def __init__(self, body: ResponsesRequest, model: ServedModel) -> None:
        self._body, self._model = body, model
        self._config = body.config(model.defaults)
        self._id, self._item_id = f"resp_{uuid.uuid4().hex}", f"msg_{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._numbers = count()
        self._is_open = False
        self._generation: Generation | None = None

    def whole(self, generations: Sequence[Generation], replies: Sequence[Reply]) -> Json:
        """Write the whole response."""
        (generation,) = generations
        return self._finished_response(generation)

    def started(self, index: int, prompt_tokens: int) -> Iterator[bytes]:
        """Write what comes before the text."""
        if self._is_open:
            return
        self._is_open = True
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, {"response": self._response("in_progress")})
        item = self._item("in_progress", [])
        yield self._event("response.output_item.added", {"output_index": 0, "item": item})
        yield self._event("response.content_part.added", self._place() | {"part": _part("")})

    def text(self, index: int, text: str) -> Iterator[bytes]:
        """Write a piece of text."""
        yield from self.started(index, 0)
        delta: Json = {"delta": text, "logprobs": []}
        yield self._event("response.output_text.delta", self._place() | delta)

    def finished(self, index: int, generation: Generation) -> Iterator[bytes]:
        """Write the text, the part and the item as they have become."""
        yield from self.started(index, 0)
        self._generation = generation
        text, part = generation.text, _part(generation.text)
        done: Json = {"text": text, "logprobs": []}
        yield self._event("response.output_text.done", self._place() | done)
        yield self._event("response.content_part.done", self._place() | {"part": part})
        item = self._item(_status(generation), [part])
        yield self._event("response.output_item.done", {"output_index": 0, "item": item})

    def end(self) -> Iterator[bytes]:
        """Write the whole response."""
        if self._generation is not None:
            response = self._finished_response(self._generation)
            yield self._event(f"response.{response['status']}", {"response": response})

    def failed(self, error: BaseException) -> Iterator[bytes]:
        """Write a response that failed."""
        fault: Json = {"code": "server_error", "message": message_of(error, self._body.names)}
        yield self._event("response.failed", {"response": self._response("failed") | {"error": fault}})

    def _event(self, kind: str, content: Json) -> bytes:
        return typed_sse({"type": kind, "sequence_number": next(self._numbers), **content})

    def _place(self) -> Json:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}

    def _item(self, status: str, parts: Sequence[Json]) -> Json:
        kind = {"type": "message", "role": "assistant"}
        return {"id": self._item_id, **kind, "status": status, "content": list(parts)}

    def _finished_response(self, generation: Generation) -> Json:
        status = _status(generation)
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return self._response(status) | {
            "completed_at": int(time.time()) if status == "completed" else None,
            "incomplete_details": details,
            "output": [self._item(status, [_part(generation.text)])],
            "usage": _usage(generation),
            "timings": timings([generation]),
        }

    def _response(self, status: str) -> Json:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "instructions": self._body.instructions,
            "max_output_tokens": self._body.max_output_tokens,
            "metadata": self._body.metadata or {},
            "model": self._model.id,
            "output": [],
            "parallel_tool_calls": self._body.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": self._config.temperature,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": self._config.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": self._body.user,
        }


def _status(generation: Generation) -> str:
    return "incomplete" if generation.stop_reason in CUT_OFF else "completed"


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(generation: Generation) -> Json:
    completion = len(generation.tokens)
    return {
        "input_tokens": generation.prompt_tokens,
        "input_tokens_details": {"cached_tokens": generation.cached_tokens},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": generation.prompt_tokens + completion,
    }
