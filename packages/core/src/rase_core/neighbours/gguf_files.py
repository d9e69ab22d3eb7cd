"""The GGUF files of a folder that other programs fill: each model once, whatever it is split into."""

from collections.abc import Iterable
from pathlib import PurePath

from rase_core.hub_listing import is_model_name
from rase_core.weights import split_parts


def first_parts(names: Iterable[str]) -> list[str]:
    """Return the names that are models, of split ones the first part, in order.

    A split model of which the first part is missing is told by the first that is there.
    """
    found: dict[str, str] = {}
    for name in sorted(filter(is_model_name, names)):
        folder, _, file = name.rpartition("/")
        first = split_parts(file)[0]
        found.setdefault(f"{folder}/{first}", name)
    return list(found.values())


def shown_name(name: str) -> str:
    """Return how a model is named: by its file, without the number of its part."""
    path = PurePath(name)
    parts = split_parts(path.name)
    whole = path.name if len(parts) == 1 else f"{path.name.rsplit('-', 3)[0]}.gguf"
    return path.with_name(whole).as_posix()
