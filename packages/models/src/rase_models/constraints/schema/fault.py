"""Which keyword of a schema is at fault, and where it stands."""

import json
from collections.abc import Iterator
from time import thread_time
from typing import Any

from rase_core.errors import UnenforceableFormat

from rase_models.constraints.limits import parser_limits
from rase_models.constraints.reasons import UNSATISFIABLE, reason_in
from rase_models.constraints.schema.document import Place, SchemaDocument, children
from rase_models.constraints.schema.keywords import DEFINITIONS
from rase_models.constraints.schema.preparation import prepared

_MOST_TRIES = 400
_MOST_SECONDS = 0.3


def fault_of(document: SchemaDocument) -> UnenforceableFormat | None:
    """Return what is wrong with the smallest part of a schema that is wrong; None where nothing is."""
    try:
        prepared(document, document.root, Place())
    except UnenforceableFormat as error:  # which says where it is already
        return error
    search = _Search(document)
    why = search.complaint(document.root, Place())
    if why is None:
        return None
    schema, place, why = search.smallest(document.root, Place(), why)
    keyword = search.keyword(schema, place)
    if keyword is None:
        return UnenforceableFormat("json_schema", f"{why}, at {place.pointer}")
    return place.refuse(keyword, why)


class _Search:
    """Tries the parts of a document by themselves, up to so many and for so long of processor time."""

    def __init__(self, document: SchemaDocument) -> None:
        self._document, self._left = document, _MOST_TRIES
        self._until = thread_time() + _MOST_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether no more may be tried."""
        return self._left <= 0 or thread_time() > self._until

    def complaint(self, schema: Any, place: Place) -> str | None:
        """Return what is wrong with a part; None where nothing is, or the search is over."""
        if self.is_over:
            return None
        self._left -= 1
        try:
            return complaint(prepared(self._document, schema, place))
        except UnenforceableFormat as error:
            return error.reason

    def smallest(self, schema: Any, place: Place, why: str) -> tuple[Any, Place, str]:
        """Return the part furthest in that is wrong in the same way."""
        while True:
            for part, at in children(schema, place.within(schema)):
                found = None if part is False else self.complaint(part, at)
                if found is not None and (found.startswith(UNSATISFIABLE) == why.startswith(UNSATISFIABLE)):
                    schema, place, why = part, at, found
                    break
            else:
                return schema, place, why

    def keyword(self, schema: Any, place: Place) -> str | None:
        """Return the keyword without which a part is right; None where that is not found in time."""
        self._left = _MOST_TRIES
        for key in _keywords(schema):
            rest = {name: value for name, value in schema.items() if name != key}
            found = self.complaint(rest, place)
            if self.is_over:
                return None
            if found is None:
                return key
        return None


def _keywords(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (key for key in schema if key not in (*DEFINITIONS, "type", "$id"))
        yield from (key for key in schema if key == "type")


def complaint(schema: Any) -> str | None:
    """Return what llguidance says is wrong with a prepared schema; None where nothing is."""
    from llguidance import LLMatcher

    try:
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema))
        text = LLMatcher.validate_grammar(grammar, None, limits=parser_limits())
    except ValueError as error:
        text = str(error)
    return reason_in(text) if text else None
