"""Answers of OpenAI's /v1/responses: thought, message and calls as items, whole and as events."""

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, count

from rase_core.generation import Generation, StopReason
from rase_models.chat.parts import ArgumentPiece, ToolCall
from rase_models.chat.places import content_places
from rase_models.chat.reply import Reply

from rase_api.dialects import Json
from rase_api.faults import message_of
from rase_api.replies.cost import timings
from rase_api.replies.response_items import OpenCall, OpenItem, OpenMessage, OpenThought, items_of
from rase_api.replies.writer import KEEP_ALIVE, SSE, Told, typed_sse
from rase_api.schemas.responses import ResponsesRequest
from rase_api.state import ServedModel

ECHOED = {"reasoning", "text", "tool_choice", "tools"}
CUT_OFF = (StopReason.MAX_TOKENS, StopReason.CONTEXT_FULL)


class ResponsesWriter:
    """Writes a response; every event of a stream has the next sequence number."""

    media_type = SSE
    quiet = KEEP_ALIVE

    def __init__(self, body: ResponsesRequest, model: ServedModel) -> None:
        self._body, self._model = body, model
        self._config = body.config(model.defaults)
        self._id = f"resp_{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._numbers = count()
        self._is_open = False
        self._items: list[Json] = []
        self._item: OpenItem | None = None
        self._generation: Generation | None = None

    def whole(self, generations: Sequence[Generation], replies: Sequence[Reply]) -> Json:
        """Write the whole response."""
        (generation,), (reply,) = generations, replies
        return self._finished_response(
            generation, items_of(reply, _status(generation), _told_of_content(generation, reply))
        )

    def started(self, index: int, prompt_tokens: int) -> Iterator[bytes]:
        """Write what comes before the items."""
        if self._is_open:
            return
        self._is_open = True
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, {"response": self._response("in_progress")})

    def text(self, index: int, text: str, told: Told = (), count: int = 0) -> Iterator[bytes]:
        """Write a piece of text."""
        yield from self._within(OpenMessage)
        yield from self._piece(text, _told_of(text, told))

    def thought(self, index: int, text: str, told: Told = ()) -> Iterator[bytes]:
        """Write a piece of thought."""
        yield from self._within(OpenThought)
        yield from self._piece(text)

    def called(self, index: int, call: ToolCall, told: Told = ()) -> Iterator[bytes]:
        """Write a call of a tool, which is an item of its own."""
        yield from self._opening(OpenCall(call))
        if call.arguments:
            yield from self._piece(call.arguments)

    def argued(self, index: int, piece: ArgumentPiece, told: Told = ()) -> Iterator[bytes]:
        """Write more of the arguments of the call that is open."""
        yield from self._piece(piece.text)

    def finished(self, index: int, generation: Generation, told: Told = ()) -> Iterator[bytes]:
        """Write the last item as it has become."""
        self._generation = generation
        if self._item is None:
            yield from self._opening(OpenMessage())
        yield from self._closing(_status(generation))

    def end(self) -> Iterator[bytes]:
        """Write the whole response."""
        if self._generation is not None:
            response = self._finished_response(self._generation, self._items)
            yield self._event(f"response.{response['status']}", {"response": response})

    def failed(self, error: BaseException) -> Iterator[bytes]:
        """Write a response that failed."""
        fault: Json = {"code": "server_error", "message": message_of(error, self._body.names)}
        yield self._event("response.failed", {"response": self._response("failed") | {"error": fault}})

    def _event(self, kind: str, content: Json) -> bytes:
        return typed_sse({"type": kind, "sequence_number": next(self._numbers), **content})

    def _within(self, kind: type[OpenItem]) -> Iterator[bytes]:
        """Begin an item, unless the one that is open is of this kind."""
        if type(self._item) is not kind:
            yield from self._opening(kind())

    def _opening(self, item: OpenItem) -> Iterator[bytes]:
        yield from self.started(0, 0)
        yield from self._closing("completed")
        self._item = item
        yield from self._events(item.opening())

    def _piece(self, text: str, told: Told = ()) -> Iterator[bytes]:
        if self._item is not None:
            yield from self._events(self._item.piece(text, told))

    def _closing(self, status: str) -> Iterator[bytes]:
        item, self._item = self._item, None
        if item is not None:
            yield from self._events(item.closing(status))
            self._items.append(item.whole(status))

    def _events(self, events: Iterable[tuple[str, Json]]) -> Iterator[bytes]:
        for kind, content in events:
            yield self._event(f"response.{kind}", {"output_index": len(self._items), **content})

    def _finished_response(self, generation: Generation, items: Sequence[Json]) -> Json:
        status = _status(generation)
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return self._response(status) | {
            "completed_at": int(time.time()) if status == "completed" else None,
            "incomplete_details": details,
            "output": list(items),
            "usage": _usage(generation),
            "timings": timings([generation]),
        }

    def _response(self, status: str) -> Json:
        asked = self._body.model_dump(include=ECHOED, exclude_none=True, by_alias=True)
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
            "reasoning": {"effort": asked.get("reasoning", {}).get("effort"), "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": self._config.temperature,
            "text": {"format": asked.get("text", {}).get("format") or {"type": "text"}},
            "tool_choice": asked.get("tool_choice", "auto"),
            "tools": asked.get("tools", []),
            "top_logprobs": self._body.top_logprobs or 0,
            "top_p": self._config.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": self._body.user,
        }


def _told_of(text: str, told: Told) -> Told:
    """Return what is told of the tokens from a piece of text on, without a tag that came before it."""
    spelt = b"".join(one.piece for one in told)
    ends = accumulate(len(one.piece) for one in told)
    start = spelt.rfind(text.encode())
    return tuple(one for one, end in zip(told, ends, strict=True) if end > start)


def _told_of_content(generation: Generation, reply: Reply) -> Told:
    """Return what is told of the tokens of the message, without those of thoughts and calls."""
    told = generation.logprobs or ()
    if reply.reader is None or not told:
        return told
    places = content_places(reply.reader(), generation.text, [one.offset for one in told])
    said = frozenset(chain.from_iterable(places))
    return tuple(one for one in told if one.offset in said)


def _status(generation: Generation) -> str:
    return "incomplete" if generation.stop_reason in CUT_OFF else "completed"


def _usage(generation: Generation) -> Json:
    completion = len(generation.tokens)
    return {
        "input_tokens": generation.prompt_tokens,
        "input_tokens_details": {"cached_tokens": generation.cached_tokens},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": generation.thought_tokens},
        "total_tokens": generation.prompt_tokens + completion,
    }
