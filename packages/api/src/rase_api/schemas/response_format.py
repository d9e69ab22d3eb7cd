"""What an answer must look like, in OpenAI's words and in those of local servers."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, ClassVar, Literal

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


class ConstrainedRequest(Body):
    """The ways to say what an answer must look like that APIs have no words of their own for."""

    format_parameter: ClassVar[str] = "response_format"

    grammar: str | None = None
    regex: str | None = None
    choice: Annotated[list[str], Field(min_length=1, max_length=1000)] | None = None

    def own_format(self) -> tuple[bool, ResponseFormat | None]:
        """Tell whether the API's own parameter is given, and what it demands; None for any text."""
        raise NotImplementedError

    @property
    def format_name(self) -> str:
        """The parameter that says it."""
        is_own, _ = self._own_format
        others = (name for name in FORMATS if getattr(self, name) is not None)
        return self.format_parameter if is_own else next(others, self.format_parameter)

    def constraint(self) -> ResponseFormat | None:
        """Return what the answer must look like; None for any text.

        Raises UnenforceableFormat, and a RequestError for two formats.
        """
        return self._constraint

    @cached_property
    def _own_format(self) -> tuple[bool, ResponseFormat | None]:
        """Schemas may be long, and are written out once for each body."""
        return self.own_format()

    @cached_property
    def _constraint(self) -> ResponseFormat | None:
        is_own, own = self._own_format
        given = [name for name in FORMATS if getattr(self, name) is not None]
        names = [self.format_parameter, *given] if is_own else given
        if len(names) > 1:
            raise InvalidValue(f"'{names[0]}' and '{names[1]}' cannot be combined.", names[1])
        return FORMATS[given[0]](getattr(self, given[0])) if given else own


class FormattedRequest(ConstrainedRequest):
    """What chat and completions say about the form of an answer."""

    response_format: FormatOption | None = None

    def own_format(self) -> tuple[bool, ResponseFormat | None]:
        """Tell whether there is a `response_format`, and what it demands."""
        given = self.response_format
        return given is not None, None if given is None else given.format()


FORMATS: Mapping[str, Callable[..., ResponseFormat]] = {
    "grammar": ResponseFormat.grammar,
    "regex": ResponseFormat.regex,
    "choice": ResponseFormat.choice,
}
