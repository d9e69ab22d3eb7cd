"""The parts of an answer: what is said, what is thought, and which tools are called."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Content:
    """A piece of what the answer says."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of what the model thought before."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, numbered from 0; `arguments` is a JSON object as text.

    In a stream a call comes with its name, as much of the arguments as is there, and `ArgumentPiece`s.
    """

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ArgumentPiece:
    """More of the arguments of the call of a number, which has begun."""

    index: int
    text: str


Part = Content | Reasoning | ToolCall | ArgumentPiece


class PartReader(Protocol):
    """Tells the parts of one answer apart as its text comes; however it is cut, the parts say the same."""

    def push(self, text: str) -> list[Part]:
        """Return the parts that became certain with one more piece of text."""

    def finish(self) -> list[Part]:
        """Return the rest, when the answer has ended."""


def merged(parts: Iterable[Part]) -> list[Part]:
    """Join pieces of a kind that follow each other."""
    whole: list[Part] = []
    for part in parts:
        match (whole[-1] if whole else None, part):
            case (Content(before), Content(text)):
                whole[-1] = Content(before + text)
            case (Reasoning(before), Reasoning(text)):
                whole[-1] = Reasoning(before + text)
            case (ToolCall(index, identity, name, before), ArgumentPiece(at, text)) if at == index:
                whole[-1] = ToolCall(index, identity, name, before + text)
            case _:
                whole.append(part)
    return whole
