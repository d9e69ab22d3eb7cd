"""Answers of Anthropic's /v1/messages."""

import uuid
from collections.abc import Iterator, Mapping, Sequence

from rase_core.generation import Generation, StopReason
from rase_models.chat.reply import Reply

from rase_api.dialects import ANTHROPIC, Json
from rase_api.replies.writer import SSE, TextOnly, typed_sse
from rase_api.schemas.anthropic import MessagesRequest
from rase_api.state import ServedModel

STOP_REASONS: Mapping[StopReason, str] = {
    StopReason.STOP_TOKEN: "end_turn",
    StopReason.STOP_STRING: "end_turn",
    StopReason.CANCELLED: "end_turn",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.CONTEXT_FULL: "model_context_window_exceeded",
}


class AnthropicWriter(TextOnly):
    """Writes a message of one block of text."""

    media_type = SSE
    quiet = typed_sse({"type": "ping"})

    def __init__(self, body: MessagesRequest, model: ServedModel) -> None:
        self._body, self._model = body, model
        self._id = f"msg_{uuid.uuid4().hex}"

    def whole(self, generations: Sequence[Generation], replies: Sequence[Reply]) -> Json:
        """Write the whole message."""
        (generation,) = generations
        block: Json = {"type": "text", "text": generation.text}
        return self._message([block], usage(generation)) | self._ending(generation)

    def started(self, index: int, prompt_tokens: int) -> Iterator[bytes]:
        """Write what comes before the text."""
        cost: Json = {"input_tokens": prompt_tokens, "output_tokens": 0}
        yield typed_sse({"type": "message_start", "message": self._message([], cost)})
        block = {"type": "text", "text": ""}
        yield typed_sse({"type": "content_block_start", "index": 0, "content_block": block})

    def text(self, index: int, text: str) -> Iterator[bytes]:
        """Write a piece of text."""
        delta = {"type": "text_delta", "text": text}
        yield typed_sse({"type": "content_block_delta", "index": 0, "delta": delta})

    def finished(self, index: int, generation: Generation) -> Iterator[bytes]:
        """Write why and at what cost the message has ended."""
        yield typed_sse({"type": "content_block_stop", "index": 0})
        ending = {"delta": self._ending(generation), "usage": usage(generation)}
        yield typed_sse({"type": "message_delta", **ending})

    def end(self) -> Iterator[bytes]:
        """Write the end."""
        yield typed_sse({"type": "message_stop"})

    def failed(self, error: BaseException) -> Iterator[bytes]:
        """Write an error instead of the end."""
        yield typed_sse(ANTHROPIC.envelope(error, self._body.names))

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

    def _ending(self, generation: Generation) -> Json:
        """Tell why it ended; a stop string that only the model knows of is its own way to end a turn."""
        if generation.stop is not None and generation.stop in (self._body.stop_sequences or ()):
            return {"stop_reason": "stop_sequence", "stop_sequence": generation.stop}
        return {"stop_reason": STOP_REASONS[generation.stop_reason], "stop_sequence": None}


def usage(generation: Generation) -> Json:
    """Count tokens as Anthropic does: those of the prompt without the cached ones."""
    return {
        "input_tokens": generation.prompt_tokens - generation.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": generation.cached_tokens,
        "output_tokens": len(generation.tokens),
    }
