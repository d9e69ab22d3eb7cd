"""Answers of Anthropic's /v1/messages."""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence

from rase_core.generation import Generation, StopReason
from rase_models.chat.parts import ArgumentPiece, ToolCall
from rase_models.chat.reply import Reply

from rase_api.dialects import ANTHROPIC, Json
from rase_api.replies.writer import SSE, Told, typed_sse
from rase_api.schemas.anthropic import MessagesRequest
from rase_api.state import ServedModel

STOP_REASONS: Mapping[StopReason, str] = {
    StopReason.STOP_TOKEN: "end_turn",
    StopReason.STOP_STRING: "end_turn",
    StopReason.CANCELLED: "end_turn",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.CONTEXT_FULL: "model_context_window_exceeded",
}


class AnthropicWriter:
    """Writes a message in blocks: thought, text, calls of tools."""

    media_type = SSE
    quiet = typed_sse({"type": "ping"})

    def __init__(self, body: MessagesRequest, model: ServedModel) -> None:
        self._body, self._model = body, model
        self._id = f"msg_{uuid.uuid4().hex}"
        self._open: str | None = None
        self._block = -1
        self._has_calls = False

    def whole(self, generations: Sequence[Generation], replies: Sequence[Reply]) -> Json:
        """Write the whole message."""
        (generation,), (reply,) = generations, replies
        has_calls = bool(reply.tool_calls)
        return self._message(_blocks(reply), usage(generation)) | self._ending(generation, has_calls)

    def started(self, index: int, prompt_tokens: int) -> Iterator[bytes]:
        """Write what comes before the first block."""
        cost: Json = {"input_tokens": prompt_tokens, "output_tokens": 0}
        yield typed_sse({"type": "message_start", "message": self._message([], cost)})

    def text(self, index: int, text: str, told: Told = (), count: int = 0) -> Iterator[bytes]:
        """Write a piece of text."""
        yield from self._within("text", {"type": "text", "text": ""})
        yield self._delta({"type": "text_delta", "text": text})

    def thought(self, index: int, text: str, told: Told = ()) -> Iterator[bytes]:
        """Write a piece of thought."""
        yield from self._within("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        yield self._delta({"type": "thinking_delta", "thinking": text})

    def called(self, index: int, call: ToolCall, told: Told = ()) -> Iterator[bytes]:
        """Write a call of a tool, which is a block of its own."""
        self._has_calls = True
        yield from self._within(call.id, _begun(call))
        if call.arguments:
            yield from self.argued(index, ArgumentPiece(call.index, call.arguments))

    def argued(self, index: int, piece: ArgumentPiece, told: Told = ()) -> Iterator[bytes]:
        """Write more of the arguments of the call whose block is open."""
        yield self._delta({"type": "input_json_delta", "partial_json": piece.text})

    def finished(self, index: int, generation: Generation, told: Told = ()) -> Iterator[bytes]:
        """Write why and at what cost the message has ended."""
        if self._block < 0:
            yield from self._within("text", {"type": "text", "text": ""})
        yield from self._closing()
        ending = {"delta": self._ending(generation, self._has_calls), "usage": usage(generation)}
        yield typed_sse({"type": "message_delta", **ending})

    def end(self) -> Iterator[bytes]:
        """Write the end."""
        yield typed_sse({"type": "message_stop"})

    def failed(self, error: BaseException) -> Iterator[bytes]:
        """Write an error instead of the end."""
        yield typed_sse(ANTHROPIC.envelope(error, self._body.names))

    def _within(self, kind: str, block: Json) -> Iterator[bytes]:
        """Begin a block, unless the one that is open is of this kind."""
        if self._open == kind:
            return
        yield from self._closing()
        self._open, self._block = kind, self._block + 1
        yield typed_sse({"type": "content_block_start", "index": self._block, "content_block": block})

    def _closing(self) -> Iterator[bytes]:
        if self._open is None:
            return
        if self._open == "thinking":
            yield self._delta({"type": "signature_delta", "signature": ""})
        self._open = None
        yield typed_sse({"type": "content_block_stop", "index": self._block})

    def _delta(self, delta: Json) -> bytes:
        return typed_sse({"type": "content_block_delta", "index": self._block, "delta": delta})

    def _message(self, content: Sequence[Json], cost: Json) -> Json:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model.id,
            "content": list(content),
            "stop_reason": None,
            "stop_sequence": None,
            "usage": cost,
        }

    def _ending(self, generation: Generation, has_calls: bool) -> Json:
        """Tell why it ended; a stop string that only the model knows of is its own way to end a turn."""
        if generation.stop is not None and generation.stop in (self._body.stop_sequences or ()):
            return {"stop_reason": "stop_sequence", "stop_sequence": generation.stop}
        reason = STOP_REASONS[generation.stop_reason]
        reason = "tool_use" if has_calls and reason == "end_turn" else reason
        return {"stop_reason": reason, "stop_sequence": None}


def _blocks(reply: Reply) -> list[Json]:
    """Write a reply as blocks, at least one."""
    thought: Json = {"type": "thinking", "thinking": reply.reasoning, "signature": ""}
    calls = [_called(call) for call in reply.tool_calls]
    text: Json = {"type": "text", "text": reply.content}
    has_text = bool(reply.content) or not (calls or reply.reasoning)
    return [*([thought] if reply.reasoning else []), *([text] if has_text else []), *calls]


def _called(call: ToolCall) -> Json:
    return _begun(call) | {"input": json.loads(call.arguments)}


def _begun(call: ToolCall) -> Json:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}


def usage(generation: Generation) -> Json:
    """Count tokens as Anthropic does: those of the prompt without the cached ones."""
    return {
        "input_tokens": generation.prompt_tokens - generation.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": generation.cached_tokens,
        "output_tokens": len(generation.tokens),
    }
