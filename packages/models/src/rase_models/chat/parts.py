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
    """A call of a tool; `arguments` is a JSON object as text. Calls are numbered from 0."""

    index: int
    id: str
    name: str
    arguments: str


Part = Content | Reasoning | ToolCall


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
            case _:
                whole.append(part)
    return whole
