"""Models that other programs keep on this disk: what there is, and how it becomes a model of the store.

A library is a function that lists a program's models; the table says where each is. Nothing is copied,
moved or changed.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import cast

from rase_core.enumeration import printable
from rase_core.errors import InvalidParameter, NeighbourError
from rase_core.neighbours.found_model import FoundModel, chosen

__all__ = ["LIBRARIES", "FoundModel", "find_model", "found_models"]

LIBRARIES: Mapping[str, str] = MappingProxyType(
    {
        "ollama": "rase_core.neighbours.ollama:ollama_models",
        "lmstudio": "rase_core.neighbours.lm_studio:lm_studio_models",
        "hf-cache": "rase_core.neighbours.hf_cache:hf_cache_models",
    }
)


def found_models(program: str) -> tuple[FoundModel, ...]:
    """Return what a program keeps, by name; those that cannot be used say why.

    Raises InvalidParameter for a program that is not in the table.
    """
    if program not in LIBRARIES:
        raise InvalidParameter("program", program, f"one of {', '.join(LIBRARIES)}")
    module, name = LIBRARIES[program].split(":")
    models = cast("Callable[[], Sequence[FoundModel]]", getattr(import_module(module), name))()
    return tuple(sorted(models, key=lambda model: model.name))


def find_model(program: str, name: str) -> FoundModel:
    """Return the one usable model that a name, or a part of one, means.

    Raises NeighbourError when there is none, or more than one, and the reason when it cannot be used.
    """
    found = chosen(found_models(program), program, name)
    if found.problem is not None:
        raise NeighbourError(f"{program}: {printable(found.name)}: {found.problem}")
    return found
