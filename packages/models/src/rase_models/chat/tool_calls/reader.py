"""Finding the calls of tools in what an answer says."""

from collections.abc import Callable
from functools import partial

from rase_models.chat.held_text import HeldText
from rase_models.chat.parts import Content, Part
from rase_models.chat.tool_calls.call_format import CallFormat, MalformedCall
from rase_models.chat.tool_calls.growth import GrowingCalls, JsonArguments
from rase_models.chat.tool_calls.json_calls import dumped
from rase_models.chat.tool_calls.quotes import Quotes
from rase_models.chat.tool_calls.tool import Tools


class CallReader:
    """Reads the calls of one answer between their markers; a `PartReader`.

    In a stream a call comes as it grows; else when it is whole, so that its arguments are JSON always. What
    looks like a call and is none is content. White space around calls is left out.
    """

    def __init__(
        self, form: CallFormat, tools: Tools, new_id: Callable[[], str], *, is_stream: bool = False
    ) -> None:
        self._form, self._tools = form, tools
        self._growing = GrowingCalls(form.growth if is_stream else None, tools, new_id)
        self._held, self._space, self._body = HeldText(), "", ""
        self._new_text = form.open_text or (Quotes if _is_of_json(form) else partial(_OfGrowth, form, tools))
        self._open_text = self._new_text()
        self._is_call = self._is_behind_call = False
        self._begun = 0

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
        parts = self._take(self._held.take_all())
        if self._is_call:
            return parts + self._close("", is_cut_off=True)
        return parts + ([Content(self._space)] if self._space and not self._is_behind_call else [])

    def _markers(self) -> tuple[str, ...]:
        form = self._form
        if self._is_call:
            return tuple(marker for marker in (form.end or form.begin, form.closing) if marker)
        return tuple(marker for marker in (form.opening, form.begin, form.closing) if marker)

    def _take(self, text: str) -> list[Part]:
        if self._is_call:
            self._body += text
            self._open_text.add(text)
            return self._growing.push(text)
        text = self._space + text
        if self._is_behind_call:
            text = text.lstrip()
        kept = text.rstrip()
        self._space = text[len(kept) :]
        if kept:
            self._is_behind_call = False
        return [Content(kept)] if kept else []

    def _turn(self, marker: str) -> list[Part]:
        form = self._form
        if self._is_call and self._open_text.is_open:
            return self._take(marker)  # a part of an argument
        if self._is_call:
            parts = self._close(marker if marker == form.end else "")
            self._is_call = marker == form.begin
            return parts
        self._space = ""
        self._is_call = marker == form.begin
        self._is_behind_call |= not self._is_call
        return []

    def _close(self, end: str, *, is_cut_off: bool = False) -> list[Part]:
        """Return the calls whose text is whole, or that text when it is none."""
        body, self._body, self._is_call = self._body, "", False
        self._open_text = self._new_text()
        self._is_behind_call = True
        told, self._begun = self._growing.begun - self._begun, self._growing.begun
        try:
            if is_cut_off and self._form.is_open:
                raise MalformedCall(body)
            calls = parsed(self._form, body, self._tools)
        except MalformedCall:
            if told:
                return self._growing.close(is_right=False)
            self._is_behind_call = False
            return [Content(f"{self._form.begin}{body}{end}"), *self._growing.close(is_right=False)]
        parts = self._growing.close(is_right=True) + self._growing.whole(calls[told:])
        self._begun = self._growing.begun
        return parts


def _is_of_json(form: CallFormat) -> bool:
    return form.growth is not None and form.growth.arguments is JsonArguments


class _OfGrowth:
    """Tells of texts in arguments that are written in JSON between tags; an `OpenText`."""

    def __init__(self, form: CallFormat, tools: Tools) -> None:
        self._growing = GrowingCalls(form.growth, tools, str)

    @property
    def is_open(self) -> bool:
        """Whether a text is open."""
        return self._growing.is_within_text

    def add(self, piece: str) -> None:
        """Take what comes next."""
        self._growing.push(piece)


def parsed(form: CallFormat, body: str, tools: Tools) -> list[tuple[str, str]]:
    """Return the names and the arguments, in JSON, of the calls in a body; raises MalformedCall."""
    return [(call.name, dumped(call.arguments)) for call in form.parse(body, tools)]


class WholeCallReader:
    """Reads an answer that is nothing but calls of known tools, or none; a `PartReader`."""

    def __init__(
        self, form: CallFormat, tools: Tools, new_id: Callable[[], str], *, is_stream: bool = False
    ) -> None:
        self._form, self._tools = form, tools
        self._growing = GrowingCalls(form.growth if is_stream else None, tools, new_id, only_known=True)
        self._pieces: list[str] = []
        self._begun: str | None = ""
        self._is_said = False

    def push(self, text: str) -> list[Part]:
        """Return the text, unless it may be calls, and the calls that have begun."""
        self._pieces.append(text)
        if self._begun is not None:
            self._begin(self._begun + text)
        return self._said() if self._is_said else self._growing.push(text)

    def _begin(self, text: str) -> None:
        """Decide, as soon as it is certain, whether the answer is calls."""
        begun = text.lstrip()
        is_open = any(start.startswith(begun) and start != begun for start in self._form.starts)
        self._is_said = not is_open and not begun.startswith(self._form.starts)
        self._begun = text if is_open else None

    def finish(self) -> list[Part]:
        """Return the calls, or the text that is none."""
        body = "".join(self._pieces).strip().removeprefix(_PYTHON_TAG)
        if self._is_said or not body:
            return self._said()
        try:
            calls = parsed(self._form, body, self._tools)[self._growing.begun :]
        except MalformedCall:
            return [] if self._growing.begun else self._said()
        if any(name not in self._tools for name, _ in calls):
            return [] if self._growing.begun else self._said()
        return self._growing.whole(calls)

    def _said(self) -> list[Part]:
        text = "".join(self._pieces)
        self._pieces.clear()
        return [Content(text)] if text else []


_PYTHON_TAG = "<|python_tag|>"
