"""Telling what a model thinks from what it says."""

from dataclasses import dataclass
from enum import Enum, auto

from rase_models.chat.held_text import HeldText
from rase_models.chat.parts import Content, Part, Reasoning


@dataclass(frozen=True, slots=True)
class ThinkTags:
    """What begins and ends a thought."""

    begin: str
    end: str

    def is_open_in(self, prompt: str) -> bool:
        """Whether a prompt ends within a thought that it has just begun."""
        return prompt.rstrip().endswith(self.begin)


THINK = ThinkTags("<think>", "</think>")

_KNOWN = (
    THINK,
    ThinkTags("[THINK]", "[/THINK]"),
    ThinkTags("<seed:think>", "</seed:think>"),
    ThinkTags("<|START_THINKING|>", "<|END_THINKING|>"),
    ThinkTags("<|channel>thought", "<channel|>"),
    ThinkTags("<thinking>", "</thinking>"),
    ThinkTags("<mm:think>", "</mm:think>"),
    ThinkTags("<|inner_prefix|>", "<|inner_suffix|>"),
)


def think_tags(template: str) -> ThinkTags:
    """Return the tags that a template's source knows; those of most models when it knows none."""
    return next((tags for tags in _KNOWN if tags.end in template), THINK)


def knows_thoughts(template: str) -> bool:
    """Whether a template's source has tags of thoughts."""
    return any(tags.end in template for tags in _KNOWN)


@dataclass(frozen=True, slots=True)
class CallSigns:
    """What tells that calls have begun, so that there is no thought any more.

    Attributes:
        markers: of calls, wherever they come in what is said.
        firsts: characters that what is said begins with where it is calls.
    """

    markers: tuple[str, ...] = ()
    firsts: tuple[str, ...] = ()

    def are_in(self, text: str) -> bool:
        """Whether calls have begun in a text."""
        return any(marker in text for marker in self.markers) or self.are_first_in(text)

    def are_first_in(self, text: str) -> bool:
        """Whether a text begins as calls do."""
        return text.lstrip().startswith(self.firsts)


NO_CALLS = CallSigns()


@dataclass(frozen=True, slots=True)
class Held:
    """That an answer is held to a format, and whether a thought may begin it."""

    may_think: bool


class _Stage(Enum):
    START = auto()
    THOUGHT = auto()
    AFTER = auto()
    SAID = auto()
    REST = auto()


class ReasoningReader:
    """Splits one answer into thought and content; a `PartReader`.

    A thought stands at the beginning. Its opening tag may be in the prompt (`is_open`), and come a second
    time nevertheless; the closing tag may come twice. An empty thought is none. White space next to the tags
    belongs to neither side. A closing tag before any opening one is left out with the white space after it:
    in a stream it is too late then to call what came before it a thought, which is what `begins_untold` is
    for. Behind the beginning of a call, as `calls` tell it, tags are text.

    An answer that is `held` to a format is content as it is from its beginning, or from the end of a thought
    that nothing stands before.
    """

    def __init__(
        self, tags: ThinkTags, *, is_open: bool, held: Held | None = None, calls: CallSigns = NO_CALLS
    ) -> None:
        self._tags, self._is_held, self._calls = tags, held is not None, calls
        self._stage = _Stage.REST if held is not None and not held.may_think else _Stage.START
        if is_open:
            self._stage = _Stage.THOUGHT
        self._held, self._space = HeldText(), ""
        self._is_fresh = True
        self._is_closed = False

    def push(self, text: str) -> list[Part]:
        """Return the parts that became certain."""
        self._held.add(text)
        parts: list[Part] = []
        while True:
            before, tag = self._held.take_until(self._markers())
            parts += self._say(before)
            if tag is None:
                return parts
            if tag in self._tags_here():
                self._turn(tag)
            else:
                parts += self._say_more(tag)

    def finish(self) -> list[Part]:
        """Return what was held back."""
        parts = self._say(self._held.take_all())
        if self._stage is _Stage.START and self._space:
            parts.append(Content(self._space))
        self._space = ""
        return parts

    def _markers(self) -> tuple[str, ...]:
        """Return the tags that mean something here, and what begins calls."""
        may_call = not self._is_held and self._stage not in (_Stage.THOUGHT, _Stage.REST)
        return (*self._tags_here(), *(self._calls.markers if may_call else ()))

    def _tags_here(self) -> tuple[str, ...]:
        begin, end = self._tags.begin, self._tags.end
        match self._stage:
            case _Stage.REST:
                return ()
            case _Stage.SAID:
                return () if self._is_closed else (end,)
            case _Stage.THOUGHT:
                return (begin, end) if self._is_fresh else (end,)
            case _:
                return (begin,) if self._is_held else (begin, end)

    def _turn(self, tag: str) -> None:
        """Go on behind a tag."""
        self._space, self._is_fresh = "", True
        if tag == self._tags.begin:
            self._stage = _Stage.THOUGHT
        else:
            self._stage, self._is_closed = _Stage.REST if self._is_held else _Stage.AFTER, True

    def _say_more(self, marker: str) -> list[Part]:
        """Return a marker that is no tag here, behind which there are none where it begins a call."""
        parts = self._say(marker)
        if marker in self._calls.markers:
            self._stage = _Stage.REST
        return parts

    def _say(self, text: str) -> list[Part]:
        """Return a text as what it is, without the white space that may turn out to be next to a tag."""
        if text and self._is_held and self._stage is _Stage.START:
            self._stage = _Stage.REST
        if self._stage is _Stage.REST:
            return [Content(text)] if text else []
        text = self._space + text
        if self._is_fresh and self._stage is not _Stage.START:
            text = text.lstrip()
        kept = text if self._stage is _Stage.SAID else text.rstrip()
        if not kept:
            self._space = text
            return []
        if self._stage not in (_Stage.THOUGHT, _Stage.SAID):
            return self._begin_saying(text)
        self._is_fresh = False
        self._space = text[len(kept) :]
        return [self._part(kept)]

    def _begin_saying(self, text: str) -> list[Part]:
        self._space, self._is_fresh = "", False
        self._stage = _Stage.REST if self._calls.are_first_in(text) else _Stage.SAID
        return [Content(text)]

    def _part(self, text: str) -> Part:
        return Reasoning(text) if self._stage is _Stage.THOUGHT else Content(text)


def begins_untold(tags: ThinkTags, answer: str, calls: CallSigns = NO_CALLS) -> bool:
    """Whether a whole answer begins within a thought, since it has a closing tag and no opening one.

    A closing tag behind the beginning of a call is text.
    """
    thought, end, _ = answer.partition(tags.end)
    return bool(end) and tags.begin not in thought and not calls.are_in(thought)
