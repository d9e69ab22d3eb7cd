"""Schemas that come again with each request, as those of tools do, prepared once."""

import json
from collections.abc import Mapping
from functools import lru_cache

from rase_core.errors import UnenforceableFormat

from rase_models.constraints.schema.budget import Budget, Exhausted
from rase_models.constraints.schema.document import Place, SchemaDocument
from rase_models.constraints.schema.preparation import prepared

_KEPT = 1024
_LONGEST = 16_384
"""Characters of a schema that is kept."""

Body = Mapping[str, object] | bool


def prepared_once(
    schema: Mapping[str, object], *, is_lenient: bool = False, budget: Budget | None = None
) -> Body:
    """Return a whole schema as `prepared` does, not to be changed: the last ones are kept. Thread-safe.

    One that is kept takes as much of the budget as it did at first. Raises UnenforceableFormat.
    """
    budget = Budget() if budget is None else budget
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        text = None  # preparing says what is wrong with it
    if text is None or len(text) > _LONGEST:
        return _whole(dict(schema), budget, is_lenient)
    body, steps = _kept(text, is_lenient)
    try:
        budget.spend(steps)
    except Exhausted as error:
        raise UnenforceableFormat("json_schema", str(error)) from None
    return body


@lru_cache(maxsize=_KEPT)
def _kept(text: str, is_lenient: bool) -> tuple[Body, int]:
    budget = Budget()
    return _whole(json.loads(text), budget, is_lenient), budget.steps


def _whole(root: dict[str, object], budget: Budget, is_lenient: bool) -> Body:
    return prepared(SchemaDocument(root), root, Place(), is_lenient=is_lenient, budget=budget)
