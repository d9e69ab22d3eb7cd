"""Which device to compute on, and what a probe found out; the probing itself belongs to the backends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from rase_core.errors import BackendFailure, BackendUnavailable

_MOST_DIGITS = 4
"""Of the number of a GPU."""


class DevicePreference(StrEnum):
    """The device a caller asks for; `auto` is the first usable one of CUDA, Metal and CPU.

    `reference` computes in plain numpy, for comparison.
    """

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    METAL = "metal"
    REFERENCE = "reference"

    @classmethod
    def parse(cls, text: str) -> "DevicePreference":
        """Return the device of this name, whatever its case; `cuda:1` is the second GPU.

        Raises BackendUnavailable for any other name.
        """
        kind, colon, number = text.strip().lower().partition(":")
        is_numbered = kind == cls.CUDA.value and number.isdecimal() and number.isascii()
        is_short = len(number) <= _MOST_DIGITS
        try:
            return cls(kind if is_numbered and is_short else kind + colon + number)
        except ValueError:
            advice = f"choose one of {', '.join(cls)}, or one of several GPUs by its number, as in cuda:1"
            raise BackendUnavailable(text, "no such device", advice) from None

    def candidates(self) -> tuple["DevicePreference", ...]:
        """Return the devices to try, the best first."""
        return _AUTO_ORDER if self is DevicePreference.AUTO else (self,)


def device_number(text: str) -> int | None:
    """Return the number of a GPU in the name of a device, None without one.

    Raises BackendUnavailable for what is no name of a device.
    """
    DevicePreference.parse(text)
    number = text.strip().partition(":")[2]
    return int(number) if number else None


_AUTO_ORDER = (DevicePreference.CUDA, DevicePreference.METAL, DevicePreference.CPU)


@dataclass(frozen=True, slots=True)
class ProbeAttempt:
    """What one device answered: its description when usable, and the reason and the remedy when not.

    Attributes:
        installed: whether the libraries are there that it needs.
        number: which of several GPUs it is, where that was asked for.
    """

    device: DevicePreference
    usable: bool
    reason: str | None = None
    detail: str | None = None
    installed: bool = True
    number: int | None = None

    @property
    def name(self) -> str:
        """What to ask for to get it."""
        return self.device.value if self.number is None else f"{self.device.value}:{self.number}"


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """Every device that was tried, in order; the last one is usable if any is."""

    preference: DevicePreference
    attempts: tuple[ProbeAttempt, ...]

    @property
    def requested(self) -> str:
        """What was asked for."""
        tried = self.attempts[0]
        return self.preference.value if tried.number is None else tried.name

    @property
    def device(self) -> DevicePreference | None:
        """The device to use, None when none of those tried is usable."""
        return next((attempt.device for attempt in self.attempts if attempt.usable), None)


Prober = Callable[[], str]
"""Computes something small on a device, checks the result and describes the device.

Raises BackendUnavailable or BackendFailure with the reason when it cannot be used.
"""


def probe(
    preference: DevicePreference, probers: Mapping[DevicePreference, Prober], number: int | None = None
) -> ProbeReport:
    """Try the preferred devices in order up to the first usable one; `number` is that of the GPU to try."""
    attempts: list[ProbeAttempt] = []
    for device in preference.candidates():
        attempts.append(replace(_attempt(device, probers.get(device)), number=number))
        if attempts[-1].usable:
            break
    return ProbeReport(preference, tuple(attempts))


def _attempt(device: DevicePreference, prober: Prober | None) -> ProbeAttempt:
    if prober is None:
        return ProbeAttempt(device, False, "this version of rase has no such backend", installed=False)
    try:
        return ProbeAttempt(device, True, detail=prober())
    except BackendUnavailable as error:
        return ProbeAttempt(device, False, error.reason, error.advice, error.is_installed)
    except BackendFailure as error:
        return ProbeAttempt(device, False, error.message, error.advice)
