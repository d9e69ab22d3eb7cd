"""gpt-oss: every message of an answer has a header with its channel and, for a call, whom it is for."""

import re
from collections.abc import Callable, Sequence

from rase_models.chat.held_text import HeldText
from rase_models.chat.parts import Content, Part, Reasoning
from rase_models.chat.tool_calls.call_format import Call, CallFormat, MalformedCall
from rase_models.chat.tool_calls.grammar import Json, Lark, Symbol, Text, Until
from rase_models.chat.tool_calls.growth import GrowingCalls, Growth, JsonArguments
from rase_models.chat.tool_calls.json_calls import dumped, json_object
from rase_models.chat.tool_calls.quotes import Quotes
from rase_models.chat.tool_calls.tool import Tool, Tools

_START, _CHANNEL, _CONSTRAIN, _MESSAGE = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"
_END, _CALL, _RETURN = "<|end|>", "<|call|>", "<|return|>"
_MARKERS = (_START, _CHANNEL, _CONSTRAIN, _MESSAGE, _END, _CALL, _RETURN)
_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([^\s<]+)")

FINAL = f"{_CHANNEL}final{_MESSAGE}"
"""What stands before what the answer says, behind all thought."""


def _parse(text: str, tools: Tools) -> Sequence[Call]:
    raise MalformedCall(text)  # HarmonyReader reads calls


_SAID = (Text(_CHANNEL), Text("final"), Text(_MESSAGE))
_THOUGHT = (Text(_CHANNEL), Text("analysis"), Text(_MESSAGE), Until(_END), Text(_START), Text("assistant"))


def _write(tool: Tool) -> Sequence[Symbol]:
    call = (Text(_CHANNEL), Text(f"commentary to=functions.{tool.name} "), Text(_CONSTRAIN), Text("json"))
    return Lark("("), *_THOUGHT, Lark(")?"), *call, Text(_MESSAGE), Json(tool.schema)


_GROWTH = Growth(re.compile(r"(?!)"), JsonArguments)  # whose calls begin by their headers


def _offer() -> Sequence[Symbol]:
    """Return what an answer looks like: messages of thought, and then what is said, or a call."""
    preamble = (Text(_CHANNEL), Text("commentary"), Text(_MESSAGE), Until(_END), Text(_START))
    said = (*_SAID, Lark("/(?s:.*)/"))
    before = (Lark("(("), *_THOUGHT, Lark(")*"), Lark("("), *preamble, Text("assistant"), Lark(")*"))
    return *before, Lark("(("), *said, Lark(")"), Lark("|"), Lark("call"), Lark("))")


HARMONY = CallFormat(
    name="harmony",
    begin="",
    end="",
    parse=_parse,
    write=_write,
    inner=_MARKERS,
    offer=_offer(),
    prelude=(Lark("("), *_THOUGHT, Lark(")*"), *_SAID),
)


def is_said_in(prompt: str) -> bool:
    """Whether a prompt ends within a message."""
    return "<|message|>" in prompt.rpartition("<|start|>")[2]


class HarmonyReader:
    """Reads answers of gpt-oss; a `PartReader`. `is_said` tells that the prompt ends within a message.

    In a stream a call comes as it grows. What is said in an answer that `is_held` to a format goes on to its
    end, whatever it spells.
    """

    def __init__(
        self, new_id: Callable[[], str], *, is_said: bool, is_held: bool = False, is_stream: bool = False
    ) -> None:
        self._held, self._is_held, self._is_stream = HeldText(), is_held, is_stream
        self._growing = GrowingCalls(_GROWTH, {}, new_id)
        self._header: str | None = None if is_said else ""
        self._make: Callable[[str], Part] | None = Content
        self._recipient, self._body, self._begun = "", "", 0
        self._quotes = Quotes()

    def push(self, text: str) -> list[Part]:
        """Return the parts that became certain."""
        self._held.add(text)
        parts: list[Part] = []
        while True:
            before, marker = self._held.take_until(self._markers())
            parts += self._take(before)
            if marker is None:
                return parts
            parts += self._turn(marker)

    def finish(self) -> list[Part]:
        """Return what was held back."""
        return self._take(self._held.take_all()) + self._close()

    def _markers(self) -> tuple[str, ...]:
        is_said = self._header is None and self._make is Content
        return () if is_said and self._is_held else _MARKERS

    def _take(self, text: str) -> list[Part]:
        if self._header is not None:
            self._header += text
            if not _is_plain(self._header):
                return []
            text, self._header, self._make = self._header, None, Content
        if self._make is not None:
            return [self._make(text)] if text else []
        self._body += text
        self._quotes.add(text)
        return self._grown(text)

    def _grown(self, text: str) -> list[Part]:
        """Return what is new of a call."""
        if not self._is_stream or not self._body.strip():
            return []
        if self._growing.begun > self._begun:
            return self._growing.push(text)
        if not self._body.lstrip().startswith("{"):
            return []
        return [self._growing.begin(self._recipient, JsonArguments()), *self._growing.push(self._body)]

    def _turn(self, marker: str) -> list[Part]:
        if self._is_within_text():
            return self._take(marker)
        if marker in (_END, _CALL, _RETURN, _START):
            return self._close()
        if self._header is None:
            return []
        self._header += f" {marker} "
        if marker == _MESSAGE:
            self._open(self._header)
        return []

    def _is_within_text(self) -> bool:
        """Whether what looks like a marker is a part of an argument, or of what is said."""
        if self._header is not None or self._make is not None:
            return not self._markers()
        return self._quotes.is_open and self._body.lstrip().startswith("{")

    def _open(self, header: str) -> None:
        """Begin the body of a message."""
        recipient = _RECIPIENT.search(header)
        self._recipient = recipient[1] if recipient is not None else ""
        self._header, self._body, self._quotes = None, "", Quotes()
        said = Reasoning if "analysis" in header else Content
        self._make = None if recipient is not None else said

    def _close(self) -> list[Part]:
        """End a message and wait for the header of the next one."""
        was_call = self._header is None and self._make is None
        self._header, self._quotes = "", Quotes()
        if not was_call:
            return []
        is_told, self._begun = self._growing.begun > self._begun, self._growing.begun
        self._growing.close(is_right=False)
        if is_told:
            return []
        try:
            parts = self._growing.whole([(self._recipient, dumped(json_object(self._body)))])
        except MalformedCall:
            return [Content(self._body)] if self._body else []
        self._begun = self._growing.begun
        return parts


def _is_plain(header: str) -> bool:
    """Whether what should be a header is text, as of a model that was held to a format."""
    begun = header.strip()
    is_header = begun.startswith(("<|", "to=", "assistant")) or any(
        start.startswith(begun) for start in ("to=", "assistant")
    )
    return not is_header
