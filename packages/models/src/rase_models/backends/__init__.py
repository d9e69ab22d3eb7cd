"""The backends, by the name of their device; each is imported when it is used."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple, cast

from rase_core.errors import BackendUnavailable

from rase_models.backends.base import Backend


class BackendPlace(NamedTuple):
    """Where a backend is, and the extras of rase-models of which any brings what it needs."""

    module: str
    attribute: str
    extras: tuple[str, ...] = ()


BackendPlaces = Mapping[str, BackendPlace]

BACKENDS: BackendPlaces = MappingProxyType(
    {
        "reference": BackendPlace("rase_models.backends.reference", "ReferenceBackend"),
        "cpu": BackendPlace("rase_models.backends.cpu", "CpuBackend", ("cpu",)),
    }
)


def load_backend(name: str, places: BackendPlaces = BACKENDS) -> Backend:
    """Import a backend.

    BackendUnavailable says which names there are, which extra to install, or why a library cannot be loaded.
    """
    if name not in places:
        raise BackendUnavailable(name, "no such backend", f"choose one of {', '.join(places)}")
    place = places[name]
    with library_faults(name, place.extras):
        module = import_module(place.module)
        return cast(Backend, getattr(module, place.attribute)())


@contextmanager
def library_faults(name: str, extras: tuple[str, ...] | None = None) -> Iterator[None]:
    """Raise BackendUnavailable for a library of a backend that is missing or broken.

    Backends import their libraries when they are first needed, so whatever calls one may meet such a fault.
    """
    if extras is None:
        extras = BACKENDS[name].extras if name in BACKENDS else ()
    try:
        yield
    except ModuleNotFoundError as error:
        reason, advice = f"the module {error.name!r} is not installed", _install(extras)
        raise BackendUnavailable(name, reason, advice) from error
    except (ImportError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the dynamic loader gives no number; this is a file's fault, or a caller's
        advice = "install it again" + (f": {_install(extras)} --force-reinstall" if extras else "")
        raise BackendUnavailable(name, f"a library cannot be loaded: {error}", advice) from error


def _install(extras: tuple[str, ...]) -> str | None:
    return " or ".join(f"pip install 'rase-models[{extra}]'" for extra in extras) or None
