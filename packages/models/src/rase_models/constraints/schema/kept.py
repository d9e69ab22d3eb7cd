"""Schemas that come again with each request, as those of tools do, prepared once."""

import json
from collections.abc import Mapping
from functools import lru_cache

from rase_models.constraints.schema.document import Place, SchemaDocument
from rase_models.constraints.schema.preparation import prepared

_KEPT = 1024
_LONGEST = 16_384
"""Characters of a schema that is kept."""

Body = Mapping[str, object] | bool


def prepared_once(schema: Mapping[str, object], *, is_lenient: bool = False) -> Body:
    """Return a whole schema as `prepared` does, not to be changed: the last ones are kept. Thread-safe.

    Raises UnenforceableFormat.
    """
    try:
        text = json.dumps(schema)
        if len(text) <= _LONGEST:
            return _kept(text, is_lenient)
    except (TypeError, ValueError, RecursionError):
        pass  # preparing says what is wrong with it
    return _whole(dict(schema), is_lenient)


@lru_cache(maxsize=_KEPT)
def _kept(text: str, is_lenient: bool) -> Body:
    return _whole(json.loads(text), is_lenient)


def _whole(root: dict[str, object], is_lenient: bool) -> Body:
    return prepared(SchemaDocument(root), root, Place(), is_lenient=is_lenient)
