"""What goes back: OpenAI's objects for answers, for pieces of answers, and for their cost."""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rase_core.generation import Generation, StopReason

Json = dict[str, object]

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


@dataclass(frozen=True, slots=True)
class Reply:
    """What all objects of one answer have in common."""

    shape: Shape
    id: str
    created: int
    model: str
    system_fingerprint: str

    @classmethod
    def new(cls, shape: Shape, model: str, system_fingerprint: str) -> "Reply":
        """Begin an answer now, under an id of its own."""
        identity = f"{shape.id_prefix}{uuid.uuid4().hex}"
        return cls(shape, identity, int(time.time()), model, system_fingerprint)

    def whole(self, generations: Sequence[Generation], per_prompt: int) -> Json:
        """Write the whole answer."""
        choices = [self.shape.choice(index, generation) for index, generation in enumerate(generations)]
        return self._object(self.shape.whole, choices) | {"usage": usage(generations, per_prompt)}

    def chunk(self, *choices: Json) -> Json:
        """Write a piece of the answer."""
        return self._object(self.shape.chunk, list(choices))

    def _object(self, kind: str, choices: list[Json]) -> Json:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.system_fingerprint,
            "choices": choices,
        }


def usage(generations: Sequence[Generation], per_prompt: int) -> Json:
    """Count the tokens of an answer: each prompt once, however many choices it has."""
    prompt = sum(generation.prompt_tokens for generation in generations[::per_prompt])
    completion = sum(len(generation.tokens) for generation in generations)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
