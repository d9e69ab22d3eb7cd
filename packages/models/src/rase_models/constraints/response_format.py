"""What an answer must look like, as a value."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from rase_core.errors import UnenforceableFormat

from rase_models.constraints.schema.annotations import without_annotations

JSON_WHITESPACE = r"\x20|\x0D?\x0A[\x20\x09]{0,24}"
"""Between the tokens of JSON: a space, or a new line with its indentation.

Weak models that may write more of it do so until they are cut off.
"""

MOST_TEXT = 65_536
"""Characters of a format, a schema or a choice as JSON, or of what tools' schemas enforce.

Reading longer ones would keep others waiting.
"""


class FormatKind(StrEnum):
    """The language that a format is written in."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    CHOICE = "choice"
    GRAMMAR = "grammar"
    LARK = "lark"


TOOLS = "tools"
"""What stands in the place of a FormatKind in an UnenforceableFormat whose fault is a tool's schema."""


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """What an answer must look like; made by one of the class methods.

    Attributes:
        text: a JSON schema as JSON, a regular expression, a JSON list of texts, or a grammar.

    Raises UnenforceableFormat for a text of more than MOST_TEXT characters, but in LARK, which is made of
    tools, whose schemas have that limit.
    """

    kind: FormatKind
    text: str

    def __post_init__(self) -> None:
        if self.kind is not FormatKind.LARK and len(self.text) > MOST_TEXT:
            reason = f"it has {len(self.text)} characters; at most {MOST_TEXT} are allowed"
            raise UnenforceableFormat(self.kind, reason)

    @classmethod
    def json_object(cls) -> Self:
        """Return the format of any JSON object."""
        return cls.json_schema({"type": "object"})

    @classmethod
    def json_schema(cls, schema: Mapping[str, object] | bool) -> Self:
        """Return the format of JSON that a schema describes, with the properties in the schema's order.

        One whose text is too long loses its annotations, which it is not enforced by. Raises
        UnenforceableFormat when it is no JSON object, and for false.
        """
        if schema is False:
            raise UnenforceableFormat(FormatKind.JSON_SCHEMA, "nothing satisfies false")
        text = _json(FormatKind.JSON_SCHEMA, {} if schema is True else schema)
        return cls(FormatKind.JSON_SCHEMA, without_annotations(text) if len(text) > MOST_TEXT else text)

    @classmethod
    def regex(cls, pattern: str) -> Self:
        """Return the format of texts that a regular expression matches from beginning to end."""
        return cls(FormatKind.REGEX, pattern)

    @classmethod
    def choice(cls, options: Sequence[str]) -> Self:
        """Return the format of one of several texts.

        Raises UnenforceableFormat when there are none, or others than texts.
        """
        if isinstance(options, str) or not options or not all(isinstance(text, str) for text in options):
            raise UnenforceableFormat(FormatKind.CHOICE, f"expected a list of texts, found {options!r}"[:200])
        return cls(FormatKind.CHOICE, _json(FormatKind.CHOICE, list(options)))

    @classmethod
    def grammar(cls, text: str) -> Self:
        """Return the format of texts that a grammar describes: GBNF, or Lark in llguidance's dialect."""
        return cls(FormatKind.GRAMMAR, text)

    @classmethod
    def lark(cls, text: str) -> Self:
        """Return the format of texts that a grammar in llguidance's Lark describes."""
        return cls(FormatKind.LARK, text)


def _json(kind: FormatKind, value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except RecursionError as error:
        raise UnenforceableFormat(kind, "it is nested too deeply") from error
    except (TypeError, ValueError) as error:
        why = "it holds what JSON has not, such as NaN, an infinity or a number of thousands of digits"
        raise UnenforceableFormat(kind, why) from error
