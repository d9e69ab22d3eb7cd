"""Answers as what they say, what was thought, and which tools they call."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from rase_models.chat.parts import Content, Part, PartReader, Reasoning, ToolCall, merged


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; `reasoning` is empty when nothing was thought.

    `reader` makes what reads the answer again in pieces; None where all of it is content.
    """

    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reader: Callable[[], PartReader] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, parts: Iterable[Part], reader: Callable[[], PartReader] | None = None) -> Self:
        """Join parts."""
        parts = merged(parts)
        return cls(
            "".join(part.text for part in parts if isinstance(part, Content)),
            "".join(part.text for part in parts if isinstance(part, Reasoning)),
            tuple(part for part in parts if isinstance(part, ToolCall)),
            reader,
        )


class Reading:
    """Reads the answers to one prompt; `make` makes the reader of a whole answer, or of one to come."""

    def __init__(self, make: Callable[[str | None], PartReader]) -> None:
        self._make = make

    def reader(self) -> PartReader:
        """Return the reader of an answer that is yet to come.

        It tells of a call before the call is whole, so that one cut off comes as far as it goes.
        """
        return self._make(None)

    def read(self, answer: str) -> Reply:
        """Return a whole answer's parts.

        Thought without an opening tag is recognised, and a call that is cut off is content, which a reader of
        pieces cannot do.
        """
        reader = self._make(answer)
        return Reply.of([*reader.push(answer), *reader.finish()], partial(self._make, answer))
