"""The backends, by the name of their device; each is imported when it is used."""

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple, cast

from rase_core.device import device_number
from rase_core.errors import BackendUnavailable

from rase_models.backends.base import Backend
from rase_models.backends.extras import install_command, needs, this_system


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
        "metal": BackendPlace("rase_models.backends.metal", "MetalBackend", ("metal",)),
        "cuda": BackendPlace("rase_models.backends.cuda", "CudaBackend", ("cuda12", "cuda13")),
    }
)


def load_backend(name: str, places: BackendPlaces = BACKENDS) -> Backend:
    """Import a backend; a number after a colon, as in `cuda:1`, is that of one of several devices.

    BackendUnavailable says which names there are, which extra to install, or why a library cannot be loaded.
    """
    kind, colon, _ = name.partition(":")
    number = device_number(name) if colon else None
    if kind not in places:
        advice = f"use the device auto, or one of {', '.join(places)}"
        raise BackendUnavailable(name, "this version of rase has no such backend", advice)
    place = places[kind]
    with library_faults(kind, place.extras):
        module = import_module(place.module)
        make = getattr(module, place.attribute)
        return cast(Backend, make() if number is None else make(ordinal=number))


@contextmanager
def library_faults(
    name: str, extras: tuple[str, ...] | None = None, *, others: Container[BaseException] = ()
) -> Iterator[None]:
    """Raise BackendUnavailable for a library of a backend that is missing or broken.

    Backends import their libraries when they are first needed, so whatever calls one may meet such a fault.
    The errors in `others` are not the library's, whatever they look like.
    """
    if extras is None:
        extras = BACKENDS[name].extras if name in BACKENDS else ()
    try:
        yield
    except (ImportError, OSError) as error:
        # The dynamic loader gives no number: with one it is a file's fault.
        if error in others or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise _unavailable(name, error, extras) from error


def _unavailable(name: str, error: ImportError | OSError, extras: tuple[str, ...]) -> BackendUnavailable:
    install = install_command(extras, this_system())
    if isinstance(error, ModuleNotFoundError):
        reason = f"the module {error.name!r} is not installed"
        return BackendUnavailable(name, reason, install or needs(extras), is_installed=False)
    advice = "install it again" + (f": {install} --force-reinstall" if install else "")
    return BackendUnavailable(name, f"a library cannot be loaded: {error}", advice)
