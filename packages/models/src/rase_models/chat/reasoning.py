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


class _Stage(Enum):
    START = auto()
    THOUGHT = auto()
    AFTER = auto()
    SAID = auto()


class ReasoningReader:
    """Splits one answer into thought and content; a `PartReader`.

    A thought stands at the beginning. Its opening tag may be in the prompt (`is_open`), and come a second
    time nevertheless; the closing tag may come twice. An empty thought is none. White space next to the tags
    belongs to neither side. A closing tag before any opening one is left out with the white space after it:
    in a stream it is too late then to call what came before it a thought, which is what `begins_untold` is
    for.
    """

    def __init__(self, tags: ThinkTags, *, is_open: bool) -> None:
        self._tags = tags
        self._stage = _Stage.THOUGHT if is_open else _Stage.START
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
            if tag in self._markers():
                self._turn(tag)
            else:
                parts += self._say(tag)

    def finish(self) -> list[Part]:
        """Return what was held back."""
        parts = self._say(self._held.take_all())
        if self._stage is _Stage.START and self._space:
            parts.append(Content(self._space))
        self._space = ""
        return parts

    def _markers(self) -> tuple[str, ...]:
        """Return the tags that mean something here."""
        begin, end = self._tags.begin, self._tags.end
        match self._stage:
            case _Stage.SAID:
                return () if self._is_closed else (end,)
            case _Stage.THOUGHT:
                return (begin, end) if self._is_fresh else (end,)
            case _:
                return (begin, end)

    def _turn(self, tag: str) -> None:
        """Go on behind a tag."""
        self._space, self._is_fresh = "", True
        if tag == self._tags.begin:
            self._stage = _Stage.THOUGHT
        else:
            self._stage, self._is_closed = _Stage.AFTER, True

    def _say(self, text: str) -> list[Part]:
        """Return a text as what it is, without the white space that may turn out to be next to a tag."""
        text = self._space + text
        if self._is_fresh and self._stage is not _Stage.START:
            text = text.lstrip()
        kept = text if self._stage is _Stage.SAID else text.rstrip()
        if not kept:
            self._space = text
            return []
        self._is_fresh = False
        if self._stage is not _Stage.THOUGHT:
            self._stage = _Stage.SAID
            kept = text
        self._space = text[len(kept) :]
        return [self._part(kept)]

    def _part(self, text: str) -> Part:
        return Reasoning(text) if self._stage is _Stage.THOUGHT else Content(text)


def begins_untold(tags: ThinkTags, answer: str) -> bool:
    """Whether a whole answer begins within a thought, since it has a closing tag and no opening one."""
    thought, end, _ = answer.partition(tags.end)
    return bool(end) and tags.begin not in thought
