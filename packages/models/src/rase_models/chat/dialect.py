"""How the models of a template write thoughts and calls, and who reads that."""

import uuid
from dataclasses import dataclass
from functools import lru_cache

from rase_core.errors import InvalidParameter

from rase_models.chat.options import ChatOptions
from rase_models.chat.parts import Content, Part, PartReader
from rase_models.chat.reasoning import (
    NO_CALLS,
    CallSigns,
    Held,
    ReasoningReader,
    ThinkTags,
    begins_untold,
    knows_thoughts,
    think_tags,
)
from rase_models.chat.reply import Reading
from rase_models.chat.tool_calls.call_format import CallFormat
from rase_models.chat.tool_calls.harmony import FINAL, HARMONY, HarmonyReader, is_said_in
from rase_models.chat.tool_calls.reader import CallReader, WholeCallReader
from rase_models.chat.tool_calls.table import call_format

_TAIL = 4096


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """The ways of one template.

    Attributes:
        tags: of thoughts; those of most models where the template has none, as `knows_tags` tells.
        speaks_of_thoughts: whether the template has anything about thinking.
        calls: None when it teaches no format that is known.
    """

    tags: ThinkTags
    knows_tags: bool
    speaks_of_thoughts: bool
    calls: CallFormat | None

    @property
    def thought_end(self) -> str:
        """What comes between thought and answer."""
        return FINAL if self.calls is HARMONY else self.tags.end

    @property
    def markers(self) -> tuple[str, ...]:
        """All that may be a token of its own, and must be seen to be understood."""
        return (self.tags.begin, self.tags.end, *(self.calls.markers if self.calls is not None else ()))

    @property
    def has_thoughts(self) -> bool | None:
        """Whether the template knows of thoughts; None where it speaks of them without known tags."""
        if self.knows_tags or self.calls is HARMONY:
            return True
        return None if self.speaks_of_thoughts else False

    def is_thinking(self, prompt: str, continued: str = "") -> bool:
        """Whether a prompt ends where a thought is expected, or in one of the message that is `continued`."""
        if self.calls is HARMONY:
            return not is_said_in(prompt)
        is_begun = continued.rfind(self.tags.begin) > continued.rfind(self.tags.end)
        return is_begun or self.tags.is_open_in(prompt[-_TAIL:])

    def format_of(self, options: ChatOptions) -> CallFormat | None:
        """Return how tools are called; None without tools.

        Raises InvalidParameter when there are tools and no format for them.
        """
        if options.active_tools and self.calls is None:
            raise InvalidParameter(
                "tools",
                [tool.name for tool in options.tools],
                "none: the chat template teaches no known calls",
            )
        return self.calls if options.active_tools else None

    def reading(
        self, prompt: str, options: ChatOptions, continued: str = "", held: Held | None = None
    ) -> Reading:
        """Return what reads the answers to a prompt, the end of which is the message that is `continued`.

        `held` tells of answers that are held to a format, or to calls. Raises InvalidParameter as `format_of`
        does.
        """
        form = self.format_of(options)
        if self.calls is HARMONY:
            is_said = is_said_in(prompt)
            return Reading(
                lambda answer: HarmonyReader(
                    _new_id, is_said=is_said, is_held=held is not None, is_stream=answer is None
                )
            )
        is_thinking, signs = self.is_thinking(prompt, continued), _signs_of(form)

        def thoughts(answer: str | None) -> PartReader:
            is_untold = held is None and begins_untold(self.tags, answer or "", signs)
            return ReasoningReader(self.tags, is_open=is_thinking or is_untold, held=held, calls=signs)

        def reader(answer: str | None) -> PartReader:
            if form is None:
                return thoughts(answer)
            calls = _call_reader(form, options, is_stream=answer is None)
            if held is not None and form.begin and not options.demanded_tools:
                calls = _FirstCalls(calls, signs.markers)
            return _Reader(thoughts(answer), calls)

        return Reading(reader)


class _Reader:
    """Looks for calls in what is no thought."""

    def __init__(self, thoughts: PartReader, calls: PartReader) -> None:
        self._thoughts, self._calls = thoughts, calls

    def push(self, text: str) -> list[Part]:
        return self._read(self._thoughts.push(text))

    def finish(self) -> list[Part]:
        return [*self._read(self._thoughts.finish()), *self._calls.finish()]

    def _read(self, parts: list[Part]) -> list[Part]:
        read: list[Part] = []
        for part in parts:
            read += self._calls.push(part.text) if isinstance(part, Content) else [part]
        return read


class _FirstCalls:
    """Looks for calls where they begin the answer, which is held to a format or to them."""

    def __init__(self, calls: PartReader, markers: tuple[str, ...]) -> None:
        self._calls, self._markers = calls, markers
        self._begun: str | None = ""
        self._is_said = False

    def push(self, text: str) -> list[Part]:
        if self._begun is not None:
            text = self._begun + text
            is_open = any(marker.startswith(text) and marker != text for marker in self._markers)
            self._is_said = not is_open and not text.startswith(self._markers)
            self._begun = text if is_open else None
            text = "" if is_open else text
        return self._read(text)

    def finish(self) -> list[Part]:
        return [*self._read(self._begun or ""), *self._calls.finish()]

    def _read(self, text: str) -> list[Part]:
        if not text:
            return []
        return [Content(text)] if self._is_said else self._calls.push(text)


@lru_cache(maxsize=64)
def chat_dialect(template: str) -> ChatDialect:
    """Return the ways of a template, by its source."""
    return ChatDialect(
        think_tags(template),
        knows_thoughts(template),
        "think" in template.lower(),
        call_format(template),
    )


def _signs_of(form: CallFormat | None) -> CallSigns:
    """Return what tells that calls of a format have begun."""
    if form is None:
        return NO_CALLS
    starts = (form.opening, form.begin, *form.starts)
    return CallSigns(
        tuple(text for text in starts if len(text) > 1), tuple(text for text in starts if len(text) == 1)
    )


def _call_reader(form: CallFormat, options: ChatOptions, *, is_stream: bool) -> PartReader:
    tools = {tool.name: tool for tool in options.active_tools}
    new_id = (lambda: uuid.uuid4().hex[: form.id_length]) if form.id_length else _new_id
    kind = CallReader if form.begin else WholeCallReader
    return kind(form, tools, new_id, is_stream=is_stream)


def _new_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"
