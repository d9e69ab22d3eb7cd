"""Answers of chat and completions, whole and as chunks of a stream."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from rase_core.generation import Generation, StopReason
from rase_models.chat.parts import ArgumentPiece, ToolCall
from rase_models.chat.reply import Reply

from rase_api.dialects import OPENAI, Json
from rase_api.replies.cost import timings, usage
from rase_api.replies.logprobs import chat_logprobs, completion_logprobs
from rase_api.replies.writer import KEEP_ALIVE, SSE, Framed, Told, sse
from rase_api.schemas.openai import OpenAIRequest
from rase_api.state import ServedModel

DONE = b"data: [DONE]\n\n"
WriteText = Callable[[int, str], Json]
"""Writes the piece of a choice that a text is."""

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

    def choice(self, index: int, generation: Generation, reply: Reply) -> Json:
        """Write a finished choice."""

    def logprobs(self, told: Told) -> Json:
        """Write log probabilities."""

    def opening(self, index: int) -> Json | None:
        """Write the piece before the first text, if there is one."""

    def delta(self, index: int, text: str) -> Json:
        """Write a piece of text."""

    def thought(self, index: int, text: str) -> Json:
        """Write a piece of thought."""

    def called(self, index: int, call: ToolCall) -> Json:
        """Write that a call begins."""

    def argued(self, index: int, piece: ArgumentPiece) -> Json:
        """Write more of the arguments of a call."""

    def closing(self, index: int, generation: Generation, *, has_calls: bool = False) -> Json:
        """Write the piece after the last text."""


class ChatShape:
    """Choices of /v1/chat/completions."""

    id_prefix = "chatcmpl-"
    whole = "chat.completion"
    chunk = "chat.completion.chunk"

    def choice(self, index: int, generation: Generation, reply: Reply) -> Json:
        """Write a finished choice."""
        calls = [_called(call) for call in reply.tool_calls]
        content = None if calls and not reply.content else reply.content
        message: Json = {"role": "assistant", "content": content, "refusal": None}
        message |= {"tool_calls": calls} if calls else {}
        message |= _thought(reply.reasoning) if reply.reasoning else {}
        return _choice(index, {"message": message}, generation, has_calls=bool(calls))

    def logprobs(self, told: Told) -> Json:
        """Write log probabilities of all tokens, also of those of thoughts and calls."""
        return {"content": chat_logprobs(told), "refusal": None}

    def opening(self, index: int) -> Json:
        """Write the piece that names the role."""
        return _choice(index, {"delta": {"role": "assistant", "content": ""}})

    def delta(self, index: int, text: str) -> Json:
        """Write a piece of text."""
        return _choice(index, {"delta": {"content": text}})

    def thought(self, index: int, text: str) -> Json:
        """Write a piece of thought."""
        return _choice(index, {"delta": _thought(text)})

    def called(self, index: int, call: ToolCall) -> Json:
        """Write the name of a call, before its arguments."""
        begun = {"index": call.index, **_called(replace(call, arguments=""))}
        return _choice(index, {"delta": {"tool_calls": [begun]}})

    def argued(self, index: int, piece: ArgumentPiece) -> Json:
        """Write more of the arguments of a call."""
        more = {"index": piece.index, "function": {"arguments": piece.text}}
        return _choice(index, {"delta": {"tool_calls": [more]}})

    def closing(self, index: int, generation: Generation, *, has_calls: bool = False) -> Json:
        """Write the piece after the last text."""
        return _choice(index, {"delta": {}}, generation, has_calls=has_calls)


class CompletionShape:
    """Choices of /v1/completions."""

    id_prefix = "cmpl-"
    whole = "text_completion"
    chunk = "text_completion"

    def choice(self, index: int, generation: Generation, reply: Reply) -> Json:
        """Write a finished choice."""
        return _choice(index, {"text": reply.content}, generation)

    def logprobs(self, told: Told) -> Json:
        """Write log probabilities in columns."""
        return completion_logprobs(told)

    def opening(self, index: int) -> None:
        """Write nothing: the first text stands for itself."""

    def delta(self, index: int, text: str) -> Json:
        """Write a piece of text."""
        return _choice(index, {"text": text})

    def thought(self, index: int, text: str) -> Json:
        """Write it as text: completions are not read."""
        return self.delta(index, text)

    def called(self, index: int, call: ToolCall) -> Json:
        """Write no text: completions are not read."""
        return self.delta(index, "")

    def argued(self, index: int, piece: ArgumentPiece) -> Json:
        """Write no text: completions are not read."""
        return self.delta(index, "")

    def closing(self, index: int, generation: Generation, *, has_calls: bool = False) -> Json:
        """Write the piece after the last text."""
        return _choice(index, {"text": ""}, generation)


def _choice(
    index: int, content: Json, generation: Generation | None = None, *, has_calls: bool = False
) -> Json:
    reason = None if generation is None else FINISH_REASONS[generation.stop_reason]
    reason = "tool_calls" if has_calls and reason == "stop" else reason
    return {"index": index, **content, "logprobs": None, "finish_reason": reason}


def _thought(text: str) -> Json:
    """Write a thought under both names that clients look for."""
    return {"reasoning_content": text, "reasoning": text}


def _called(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


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
        self._calling: set[int] = set()
        self._generations: dict[int, Generation] = {}
        self._framed: dict[tuple[WriteText, int], Framed] = {}

    def whole(self, generations: Sequence[Generation], replies: Sequence[Reply]) -> Json:
        """Write the whole answer."""
        ends = zip(generations, replies, strict=True)
        choices = [self._choice(index, *end) for index, end in enumerate(ends)]
        return self._object(self._shape.whole, choices) | self._cost(generations)

    def started(self, index: int, prompt_tokens: int) -> Iterator[bytes]:
        """Write nothing yet."""
        yield from ()

    def text(self, index: int, text: str, told: Told = (), count: int = 0) -> Iterator[bytes]:
        """Write a piece of text."""
        yield from self._opening(index)
        yield self._piece(self._shape.delta, index, text, told)

    def thought(self, index: int, text: str, told: Told = ()) -> Iterator[bytes]:
        """Write a piece of thought."""
        yield from self._opening(index)
        yield self._piece(self._shape.thought, index, text, told)

    def called(self, index: int, call: ToolCall, told: Told = ()) -> Iterator[bytes]:
        """Write a call of a tool."""
        yield from self._opening(index)
        self._calling.add(index)
        yield self._chunk(self._shape.called(index, call), told)
        if call.arguments:
            yield from self.argued(index, ArgumentPiece(call.index, call.arguments))

    def argued(self, index: int, piece: ArgumentPiece, told: Told = ()) -> Iterator[bytes]:
        """Write more of the arguments of a call."""
        yield self._chunk(self._shape.argued(index, piece), told)

    def finished(self, index: int, generation: Generation, told: Told = ()) -> Iterator[bytes]:
        """Write why a choice has ended."""
        self._generations[index] = generation
        yield from self._opening(index)
        yield self._chunk(self._shape.closing(index, generation, has_calls=index in self._calling), told)

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

    def _choice(self, index: int, generation: Generation, reply: Reply) -> Json:
        choice = self._shape.choice(index, generation, reply)
        if generation.logprobs is None:
            return choice
        prompt = generation.prompt_logprobs or ()
        before = len(reply.content) - len(generation.text) if prompt else 0
        told = (*prompt, *(replace(one, offset=one.offset + before) for one in generation.logprobs))
        return choice | {"logprobs": self._shape.logprobs(told)}

    def _piece(self, write: WriteText, index: int, text: str, told: Told) -> bytes:
        if told:
            return self._chunk(write(index, text), told)
        framed = self._framed.get((write, index))
        if framed is None:
            framed = Framed(lambda text: self._chunk(write(index, text)))
            self._framed[write, index] = framed
        return framed(text)

    def _chunk(self, choice: Json, told: Told = ()) -> bytes:
        if told:
            choice = choice | {"logprobs": self._shape.logprobs(told)}
        chunk = self._object(self._shape.chunk, [choice])
        return sse(chunk | {"usage": None} if self._body.has_usage_chunk else chunk)

    def _cost(self, generations: Sequence[Generation]) -> Json:
        return {
            "usage": usage(generations, self._body.choices),
            "timings": timings(generations, self._body.choices),
        }

    def _object(self, kind: str, choices: list[Json]) -> Json:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model.id,
            "system_fingerprint": self._model.fingerprint,
            "choices": choices,
        }
