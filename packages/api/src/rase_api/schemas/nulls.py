"""Nulls for parameters of a sister route: some clients write one body for all of OpenAI's routes."""

from collections.abc import Iterator

from pydantic import model_validator

from rase_api.parameters import Body


class TakesNulls(Body):
    """The body of one of OpenAI's routes: what another of them knows may be null, which asks for nothing."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls_of_others(cls, body: object) -> object:
        if not isinstance(body, dict) or all(value is not None for value in body.values()):
            return body
        of_others = set(_all_fields()) - cls.model_fields.keys()
        return {key: value for key, value in body.items() if value is not None or key not in of_others}


def _all_fields(body: type[Body] = TakesNulls) -> Iterator[str]:
    yield from body.model_fields
    for derived in body.__subclasses__():
        yield from _all_fields(derived)
