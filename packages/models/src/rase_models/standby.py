"""What computes for a session, and what does when that is lost."""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from rase_core.errors import BackendFailure, DeviceLost

from rase_models.decoder import ProgramDecoder
from rase_models.lost_devices import CPU, LOST_DEVICES, LostDevices
from rase_models.memory_plan import MemoryPlan


class Spare(NamedTuple):
    """A decoder of the same model on the CPU, and what it was planned to take."""

    decoder: ProgramDecoder
    memory: MemoryPlan | None = None


LoadSpare = Callable[[Callable[[], object]], Spare]
"""Loads a spare; raises EngineError, and what the check that it is given raises now and then."""


class Standby:
    """A decoder with one in reserve, which is loaded when the device of the first is lost.

    Attributes:
        decoder: what computes.
        device: where.
        fallback: why that is not the device that was asked for; None if it is.
        memory: what it was planned to take; None where nobody planned.
    """

    def __init__(
        self,
        decoder: ProgramDecoder,
        device: str,
        fallback: str | None = None,
        load_spare: LoadSpare | None = None,
        memory: MemoryPlan | None = None,
        lost: LostDevices = LOST_DEVICES,
    ) -> None:
        self.decoder, self.device, self.fallback = decoder, device, fallback
        self.memory = memory
        self._load_spare, self._lost = load_spare, lost

    def replace(self, error: DeviceLost, check: Callable[[], object] = lambda: None) -> ProgramDecoder:
        """Close the decoder and return the one that takes its place.

        Raises DeviceLost when there is none, what loading it raises, and `check` while it is loaded.
        """
        named = self._lost.add(self.device, error)
        with suppress(BackendFailure):  # what it has on the device is gone anyway
            self.decoder.close()
        load, self._load_spare = self._load_spare, None
        if load is None:
            raise named from error
        self.decoder, self.memory = load(check)
        self.device, self.fallback = CPU, named.message
        return self.decoder

    def close(self) -> None:
        """Close the decoder that computes."""
        self.decoder.close()
