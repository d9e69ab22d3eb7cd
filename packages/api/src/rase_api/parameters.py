"""What requests for text share, whatever the API: the way from wire names to a GenerationConfig.

Ranges are not known here: `GenerationConfig` validates them. A null means the default, always.
"""

import logging
from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import PrivateAttr, ValidationError
from rase_core.sampling import GenerationConfig
from starlette.requests import Request

from rase_api.body import read_object
from rase_api.dialects import OPENAI, Dialect
from rase_api.errors import InvalidValue
from rase_api.faults import Names
from rase_api.fields import Strict
from rase_api.lenience import left_out, without
from rase_api.settings import Settings
from rase_api.validation import names_of, request_error

logger = logging.getLogger(__name__)


class Body(Strict):
    """The body of a request, in its API's own names."""

    _is_lenient: bool = PrivateAttr(default=False)

    @classmethod
    async def read(cls, request: Request, settings: Settings) -> Self:
        """Read and check a body; raises a RequestError."""
        body = await read_object(request, settings.max_body_bytes, settings.body_seconds)
        return cls.parse(body, lenient=settings.lenient)

    @classmethod
    def parse(cls, body: Mapping[str, object], *, lenient: bool = False) -> Self:
        """Check a request's body; raises a RequestError that names the parameter at fault.

        When lenient, unknown and unsupported parameters are left out with a warning.
        """
        try:
            request = cls.model_validate(body)
        except ValidationError as error:
            locations = left_out(error) if lenient else []
            kept = without(body, locations) if locations else None
            if kept is None:
                raise request_error(error) from error
            logger.warning("parameters of a request were ignored: %s", names_of(locations))
            return cls.parse(kept, lenient=True)
        request._is_lenient = lenient
        request.refuse_contradictions()
        return request

    def refuse_contradictions(self) -> None:
        """Raise a RequestError for values that are right each, but not together."""


class TextRequest(Body):
    """A request for text. `sampling` maps wire names, with dots for nested ones, to GenerationConfig fields.

    Where two names share a field, either may be used.
    """

    dialect: ClassVar[Dialect] = OPENAI
    sampling: ClassVar[Mapping[str, str]] = {}
    prompt_name: ClassVar[str] = "prompt"

    stream: bool | None = None

    @property
    def choices(self) -> int:
        """How many answers each prompt gets."""
        return 1

    @property
    def is_streamed(self) -> bool:
        """Whether the answer comes in pieces."""
        return bool(self.stream)

    @property
    def names(self) -> Names:
        """Field of GenerationConfig -> the name by which this request gave it."""
        return {self.sampling[name]: name for name in self.given()} | {"prompt": self.prompt_name}

    def config(self, defaults: GenerationConfig) -> GenerationConfig:
        """Put this request's values over a model's defaults. Raises InvalidGenerationConfig."""
        return defaults.merged(self._changes())

    def given(self) -> dict[str, object]:
        """Return the values that this request has for a generation, by wire name."""
        values = ((name, _value(self, name)) for name in self.sampling)
        return {name: value for name, value in values if value is not None}

    def refuse_contradictions(self) -> None:
        """Refuse two values for one field."""
        seen: dict[str, str] = {}
        given = self.given()
        for name, value in given.items():
            other = seen.setdefault(self.sampling[name], name)
            if given[other] != value:
                raise InvalidValue(f"'{other}' and '{name}' mean the same, but have different values.", name)

    def _changes(self) -> dict[str, object]:
        return {self.sampling[name]: value for name, value in self.given().items()}


def _value(request: object, name: str) -> object:
    """Look a dotted name up; a part that is absent has no values."""
    for part in name.split("."):
        request = None if request is None else getattr(request, part)
    return request
