"""The ids of models: they are file names on every system, and never look like an option."""

import re

from rase_core.errors import InvalidModelId

_SHAPE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


def check_model_id(model_id: str) -> str:
    """Return the id. Raises InvalidModelId when it is none."""
    if not isinstance(model_id, str) or not _SHAPE.fullmatch(model_id):
        raise InvalidModelId(model_id)
    if _RESERVED.fullmatch(model_id):
        raise InvalidModelId(model_id, "Windows keeps this name for itself")
    return model_id
