"""How an answer is written, whatever the API: whole, or piece by piece as it comes."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from rase_core.generation import Generation
from rase_core.logprobs import TokenLogprobs
from rase_models.chat.parts import ArgumentPiece, ToolCall
from rase_models.chat.reply import Reply

from rase_api.dialects import Json

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
Told = tuple[TokenLogprobs, ...]
KEEP_ALIVE = b": keep-alive\n\n"
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class Writer(Protocol):
    """Writes one answer. The pieces of a stream are whole events or lines; a failure ends the stream.

    `told` are the log probabilities of the tokens that have come with a piece, where they were asked for,
    `count` is how many tokens of the choice have come with it and before.
    """

    media_type: str
    """Of a stream."""
    quiet: bytes
    """What a stream says to stay alive; nothing where its form has no words for that."""

    def whole(self, generations: Sequence[Generation], replies: Sequence[Reply]) -> object:
        """Write the whole answer as JSON."""

    def started(self, index: int, prompt_tokens: int) -> Iterable[bytes]:
        """Write that a choice begins."""

    def text(self, index: int, text: str, told: Told = (), count: int = 0) -> Iterable[bytes]:
        """Write a piece of text."""

    def thought(self, index: int, text: str, told: Told = ()) -> Iterable[bytes]:
        """Write a piece of thought."""

    def called(self, index: int, call: ToolCall, told: Told = ()) -> Iterable[bytes]:
        """Write a call of a tool, with what is known of its arguments."""

    def argued(self, index: int, piece: ArgumentPiece, told: Told = ()) -> Iterable[bytes]:
        """Write more of the arguments of the last call."""

    def finished(self, index: int, generation: Generation, told: Told = ()) -> Iterable[bytes]:
        """Write that a choice has ended."""

    def end(self) -> Iterable[bytes]:
        """Write the end of the stream."""

    def failed(self, error: BaseException) -> Iterable[bytes]:
        """Write what went wrong."""


class TextOnly:
    """The part of a `Writer` for answers that are not read, so that all of them is text."""

    def thought(self, index: int, text: str, told: Told = ()) -> Iterable[bytes]:
        """Write nothing."""
        return ()

    def called(self, index: int, call: ToolCall, told: Told = ()) -> Iterable[bytes]:
        """Write nothing."""
        return ()

    def argued(self, index: int, piece: ArgumentPiece, told: Told = ()) -> Iterable[bytes]:
        """Write nothing."""
        return ()


def sse(value: object, event: str | None = None) -> bytes:
    """Write one event, in ASCII only: clients split lines at characters that JSON leaves as they are."""
    name = b"" if event is None else f"event: {event}\n".encode("ascii")
    return name + b"data: " + compact(value) + b"\n\n"


def typed_sse(value: Json) -> bytes:
    """Write one event under the name that its `type` is."""
    return sse(value, str(value["type"]))


class Framed:
    """Writes events that differ in a text alone, and what they share only once.

    `write` writes the event of a text, as JSON in ASCII.
    """

    def __init__(self, write: Callable[[str], bytes]) -> None:
        self._parts = write(_MARK).split(compact(_MARK))

    def __call__(self, text: str) -> bytes:
        """Return what `write` returns for a text."""
        return compact(text).join(self._parts)


_MARK = "\0"
"""No other value of an event is this text."""


def line(value: object) -> bytes:
    """Write one line of NDJSON."""
    return compact(value) + b"\n"


def compact(value: object) -> bytes:
    """Write JSON without spaces, in ASCII."""
    return _ENCODER.encode(value).encode("ascii")
