"""What an answer must look like, in OpenAI's words and in those of local servers."""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field
from rase_models.constraints import ResponseFormat

from rase_api.errors import InvalidValue, MissingParameter
from rase_api.fields import Strict
from rase_api.parameters import Body

Schema = dict[str, object]


class NamedSchema(Strict):
    """A JSON schema and what it is called; every schema is enforced, `strict` or not."""

    name: str
    schema_: Annotated[Schema | None, Field(alias="schema")] = None
    description: str | None = None
    strict: bool | None = None


class FormatOption(Strict):
    """OpenAI's `response_format`; `schema` beside `json_object` is llama.cpp's."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None
    schema_: Annotated[Schema | None, Field(alias="schema")] = None

    def format(self) -> ResponseFormat | None:
        """Return the format; None for any text."""
        self._refuse_strays()
        if self.type == "text":
            return None
        schema = self.json_schema.schema_ if self.json_schema is not None else self.schema_
        return ResponseFormat.json_object() if schema is None else ResponseFormat.json_schema(schema)

    def _refuse_strays(self) -> None:
        if self.type == "json_schema" and self.json_schema is None:
            path = "response_format.json_schema"
            raise MissingParameter(f"Missing required parameter: '{path}'.", path)
        for name, value, kind in (
            ("json_schema", self.json_schema, "json_schema"),
            ("schema", self.schema_, "json_object"),
        ):
            if value is not None and self.type != kind:
                path = f"response_format.{name}"
                raise InvalidValue(f"'{path}' is only allowed with the type {kind!r}.", path)


class FormattedRequest(Body):
    """What chat and completions say about the form of an answer."""

    response_format: FormatOption | None = None
    grammar: str | None = None
    regex: str | None = None
    choice: Annotated[list[str], Field(min_length=1, max_length=1000)] | None = None

    @property
    def format_name(self) -> str:
        """The parameter that says it."""
        return next((name for name in FORMATS if getattr(self, name) is not None), "response_format")

    def format(self) -> ResponseFormat | None:
        """Return what the answer must look like; None for any text.

        Raises UnenforceableFormat, and a RequestError for two formats.
        """
        given = [name for name in FORMATS if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidValue(f"'{given[0]}' and '{given[1]}' cannot be combined.", given[1])
        return FORMATS[given[0]](getattr(self, given[0])) if given else None


FORMATS: Mapping[str, Callable[..., ResponseFormat | None]] = {
    "response_format": FormatOption.format,
    "grammar": ResponseFormat.grammar,
    "regex": ResponseFormat.regex,
    "choice": ResponseFormat.choice,
}
