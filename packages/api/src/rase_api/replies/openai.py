"""Answers of chat and completions, whole and as chunks of a stream."""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from rase_core.generation import Generation, StopReason

from rase_api.dialects import OPENAI, Json
from rase_api.replies.cost import timings, usage
from rase_api.replies.writer import KEEP_ALIVE, SSE, sse
from rase_api.schemas.openai import OpenAIRequest
from rase_api.state import ServedModel

DONE = b"data: [DONE]\n\n"

FINISH_REASONS: Mapping[StopReason, str] = {
    StopReason.STOP_TOKEN: "stop",
    StopReason.STOP_STRING: "stop",
    StopReason.CANCELLED: "stop",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTEXT_FULL: "length",
}


class Shape(Protocol):
    """How one endpoint writes its choices."""

    id_prefix: str
    whole: str
    """The `object` of an answer."""
    chunk: str
    """The `object` of a piece of an answer."""

    def choice(self, index: int, generation: Generation) -> Json:
        """Write a finished choice."""

    def opening(self, index: int) -> Json | None:
        """Write the piece before the first text, if there is one."""

    def delta(self, index: int, text: str) -> Json:
        """Write a piece of text."""

    def closing(self, index: int, generation: Generation) -> Json:
        """Write the piece after the last text."""


class ChatShape:
    """Choices of /v1/chat/completions."""

    id_prefix = "chatcmpl-"
    whole = "chat.completion"
    chunk = "chat.completion.chunk"

    def choice(self, index: int, generation: Generation) -> Json:
        """Write a finished choice."""
        message = {"role": "assistant", "content": generation.text, "refusal": None}
        return _choice(index, {"message": message}, generation)

    def opening(self, index: int) -> Json:
        """Write the piece that names the role."""
        return _choice(index, {"delta": {"role": "assistant", "content": ""}})

    def delta(self, index: int, text: str) -> Json:
        """Write a piece of text."""
        return _choice(index, {"delta": {"content": text}})

    def closing(self, index: int, generation: Generation) -> Json:
        """Write the piece after the last text."""
        return _choice(index, {"delta": {}}, generation)


class CompletionShape:
    """Choices of /v1/completions."""

    id_prefix = "cmpl-"
    whole = "text_completion"
    chunk = "text_completion"

    def choice(self, index: int, generation: Generation) -> Json:
        """Write a finished choice."""
        return _choice(index, {"text": generation.text}, generation)

    def opening(self, index: int) -> None:
        """Write nothing: the first text stands for itself."""

    def delta(self, index: int, text: str) -> Json:
        """Write a piece of text."""
        return _choice(index, {"text": text})

    def closing(self, index: int, generation: Generation) -> Json:
        """Write the piece after the last text."""
        return _choice(index, {"text": ""}, generation)


def _choice(index: int, content: Json, generation: Generation | None = None) -> Json:
    reason = None if generation is None else FINISH_REASONS[generation.stop_reason]
    return {"index": index, **content, "logprobs": None, "finish_reason": reason}


class OpenAIWriter:
    """Writes an answer in OpenAI's order: for each choice a role, the text, and the end; then the cost."""

    media_type = SSE
    quiet = KEEP_ALIVE

    def __init__(self, body: OpenAIRequest, shape: Shape, model: ServedModel) -> None:
        self._body, self._shape = body, shape
        self._id = f"{shape.id_prefix}{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._model = model
        self._opened: set[int] = set()
        self._generations: dict[int, Generation] = {}

    def whole(self, generations: Sequence[Generation]) -> Json:
        """Write the whole answer."""
        choices = [self._shape.choice(index, generation) for index, generation in enumerate(generations)]
        return self._object(self._shape.whole, choices) | self._cost(generations)

    def started(self, index: int, prompt_tokens: int) -> Iterator[bytes]:
        """Write nothing yet."""
        yield from ()

    def text(self, index: int, text: str) -> Iterator[bytes]:
        """Write a piece of text."""
        yield from self._opening(index)
        yield self._chunk(self._shape.delta(index, text))

    def finished(self, index: int, generation: Generation) -> Iterator[bytes]:
        """Write why a choice has ended."""
        self._generations[index] = generation
        yield from self._opening(index)
        yield self._chunk(self._shape.closing(index, generation))

    def end(self) -> Iterator[bytes]:
        """Write the chunk that counts the tokens, if it was asked for, and the end."""
        if self._body.has_usage_chunk:
            yield sse(self._object(self._shape.chunk, []) | self._cost(self._in_order()))
        yield DONE

    def failed(self, error: BaseException) -> Iterator[bytes]:
        """Write an error instead of the end."""
        yield sse(OPENAI.envelope(error, self._body.names))

    def _in_order(self) -> list[Generation]:
        return [self._generations[index] for index in sorted(self._generations)]

    def _opening(self, index: int) -> Iterator[bytes]:
        if index not in self._opened:
            self._opened.add(index)
            opening = self._shape.opening(index)
            if opening is not None:
                yield self._chunk(opening)

    def _chunk(self, choice: Json) -> bytes:
        chunk = self._object(self._shape.chunk, [choice])
        return sse(chunk | {"usage": None} if self._body.has_usage_chunk else chunk)

    def _cost(self, generations: Sequence[Generation]) -> Json:
        return {"usage": usage(generations, self._body.choices), "timings": timings(generations)}

    def _object(self, kind: str, choices: list[Json]) -> Json:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model.id,
            "system_fingerprint": self._model.fingerprint,
            "choices": choices,
        }
