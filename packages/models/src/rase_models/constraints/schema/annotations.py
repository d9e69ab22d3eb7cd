"""What schemas say to readers alone."""

import json

from rase_models.constraints.schema.document import Place, walked

_TEXTS = ("title", "description", "$comment", "markdownDescription")
_VALUES = ("default", "examples")


def without_annotations(text: str) -> str:
    """Return a schema, as JSON, without what changes nothing of what it admits."""
    root = json.loads(text)
    for schema, _ in walked(root, Place()):
        if isinstance(schema, dict):
            _forget(schema)
    return json.dumps(root)


def _forget(schema: dict[str, object]) -> None:
    for key in _TEXTS:
        if isinstance(schema.get(key), str):
            del schema[key]
    for key in _VALUES:
        schema.pop(key, None)
