"""The names of models: ids are file names on every system, and never look like an option; aliases may."""

import re

from rase_core.errors import InvalidAlias, InvalidModelId

_SHAPE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_ALIAS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:/@+-]{0,127}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


def check_model_id(model_id: str) -> str:
    """Return the id. Raises InvalidModelId when it is none."""
    if not isinstance(model_id, str) or not _SHAPE.fullmatch(model_id):
        raise InvalidModelId(model_id)
    if _RESERVED.fullmatch(model_id):
        raise InvalidModelId(model_id, "Windows keeps this name for itself")
    return model_id


def check_alias(alias: object) -> str:
    """Return the alias, which may be a name that other programs have for a model. Raises InvalidAlias."""
    if not isinstance(alias, str) or not _ALIAS.fullmatch(alias):
        raise InvalidAlias(
            alias, "use letters, digits and '._:/@+-', at most 128 of them, a letter, digit or '_' first"
        )
    return alias
