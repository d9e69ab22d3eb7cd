"""What computes for a session, and what does when that is lost."""

from collections.abc import Callable
from contextlib import suppress

from rase_core.errors import BackendFailure, DeviceLost

from rase_models.decoder import ProgramDecoder
from rase_models.lost_devices import CPU, LOST_DEVICES, LostDevices

LoadSpare = Callable[[], ProgramDecoder]
"""Loads the same model on the CPU; raises EngineError."""


class Standby:
    """A decoder with one in reserve, which is loaded when the device of the first is lost.

    Attributes:
        decoder: what computes.
        device: where.
        fallback: why that is not the device that was asked for; None if it is.
    """

    def __init__(
        self,
        decoder: ProgramDecoder,
        device: str,
        fallback: str | None = None,
        load_spare: LoadSpare | None = None,
        lost: LostDevices = LOST_DEVICES,
    ) -> None:
        self.decoder, self.device, self.fallback = decoder, device, fallback
        self._load_spare, self._lost = load_spare, lost

    def replace(self, error: DeviceLost) -> ProgramDecoder:
        """Close the decoder and return the one that takes its place.

        Raises DeviceLost when there is none, and what loading it raises.
        """
        named = self._lost.add(self.device, error)
        with suppress(BackendFailure):  # what it has on the device is gone anyway
            self.decoder.close()
        load, self._load_spare = self._load_spare, None
        if load is None:
            raise named from error
        self.decoder = load()
        self.device, self.fallback = CPU, named.message
        return self.decoder

    def close(self) -> None:
        """Close the decoder that computes."""
        self.decoder.close()
