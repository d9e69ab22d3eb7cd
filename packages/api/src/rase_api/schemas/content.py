"""Contents of messages that may be a text or a list of text parts, whatever the API calls those."""

from collections.abc import Sequence
from typing import Annotated, Protocol

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from rase_api.fields import Ignored, Strict, only


class TextPart(Strict):
    """One part of a content."""

    type: Annotated[object, only("text")]
    text: str
    cache_control: Ignored = None


class HasText(Protocol):
    """A part of whatever API."""

    @property
    def text(self) -> str:
        """Its text."""


def as_parts(kind: str) -> BeforeValidator:
    """Take a text for a list of one part of this type."""

    def check(value: object) -> object:
        if isinstance(value, str):
            return [{"type": kind, "text": value}]
        if value is None or isinstance(value, list):
            return value
        raise PydanticCustomError("content_type", "expected a string or a list of text parts")

    return BeforeValidator(check, json_schema_input_type=str | list[dict[str, object]] | None)


def joined(parts: Sequence[HasText] | None) -> str:
    """Join parts by newlines."""
    return "\n".join(part.text for part in parts or ())
