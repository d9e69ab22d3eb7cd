"""The extras of rase-models that bring the libraries of backends, and where they bring any."""

import platform
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple


class System(NamedTuple):
    """An operating system and a processor, as `sys.platform` and `platform.machine` name them."""

    platform: str
    machine: str


class Reach(NamedTuple):
    """The systems for which an extra brings something, and what to tell the others."""

    systems: tuple[tuple[str, str | None], ...]
    advice: str


_NVIDIA = Reach(
    (("linux", None), ("win32", None)),
    "CUDA needs Linux or Windows with an NVIDIA GPU; use the device auto",
)
_REACHES: Mapping[str, Reach] = MappingProxyType(
    {
        "metal": Reach(
            (("darwin", "arm64"), ("linux", None)),
            "Metal needs a Mac with Apple silicon (or Linux, for tests on the CPU); use the device auto",
        ),
        "cuda12": _NVIDIA,
        "cuda13": _NVIDIA,
    }
)
"""Of the extras that not every system has a use for, as pyproject.toml has them."""


def this_system() -> System:
    """Return the system that this Python was built for."""
    return System(sys.platform, platform.machine())


def install_command(extras: Iterable[str], system: System) -> str | None:
    """Return what installs a backend's libraries, where any of its extras brings some."""
    useful = [extra for extra in extras if _has_use_for(system, extra)]
    return " or ".join(f"pip install 'rase-models[{extra}]'" for extra in useful) or None


def needs(extras: Iterable[str]) -> str | None:
    """Return what to tell a system for which the extras bring nothing."""
    return next((_REACHES[extra].advice for extra in extras if extra in _REACHES), None)


def _has_use_for(system: System, extra: str) -> bool:
    reach = _REACHES.get(extra)
    wanted = ((system.platform, system.machine), (system.platform, None))
    return reach is None or any(known in reach.systems for known in wanted)
