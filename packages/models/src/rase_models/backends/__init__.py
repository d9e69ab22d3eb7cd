"""The backends, by the name of their device; each is imported when it is used."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple, cast

from rase_core.errors import BackendUnavailable

from rase_models.backends.base import Backend


class BackendPlace(NamedTuple):
    """Where a backend is, and the extra of rase-models that brings what it needs."""

    module: str
    attribute: str
    extra: str | None


BACKENDS: Mapping[str, BackendPlace] = MappingProxyType(
    {
        "reference": BackendPlace("rase_models.backends.reference", "ReferenceBackend", None),
        "cpu": BackendPlace("rase_models.backends.cpu", "CpuBackend", "cpu"),
    }
)


def load_backend(name: str) -> Backend:
    """Import a backend; BackendUnavailable says which names there are, or which extra to install."""
    if name not in BACKENDS:
        raise BackendUnavailable(name, "no such backend", f"choose one of {', '.join(BACKENDS)}")
    place = BACKENDS[name]
    try:
        module = import_module(place.module)
    except ModuleNotFoundError as error:
        raise _missing(name, place, error) from error
    return cast(Backend, getattr(module, place.attribute)())


def _missing(name: str, place: BackendPlace, error: ModuleNotFoundError) -> BackendUnavailable:
    advice = f"pip install 'rase-models[{place.extra}]'" if place.extra else None
    return BackendUnavailable(name, f"the module {error.name!r} is not installed", advice)
