"""The devices that this process had and has lost."""

import logging

from rase_core.errors import BackendUnavailable, DeviceLost
from rase_core.fork_safe import ForkSafeLock

logger = logging.getLogger(__name__)

CPU = "cpu"
"""What computes in place of a device that is lost."""


class LostDevices:
    """Why devices were lost, by their name as in `--device`. Thread-safe.

    A driver gives a process no second use of a device that has failed, so nothing is ever taken out.
    """

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._reasons: dict[str, str] = {}

    def add(self, device: str, error: DeviceLost) -> DeviceLost:
        """Note a loss, log it once, and return it by the name of the one of several devices that it is."""
        named = DeviceLost(device, error.detail)
        if device == CPU:  # what stands in for all others
            return named
        with self._lock:
            is_news = self._key(device) not in self._reasons
            self._reasons[self._key(device)] = named.message
        if is_news:
            logger.error("%s; the %s computes from now on", named.message, CPU)
        return named

    def reason(self, device: str) -> str | None:
        """Return why a device was lost, None for one that was not."""
        with self._lock:
            return self._reasons.get(self._key(device))

    def usable(self, device: str) -> str:
        """Return the device, or what computes in its place."""
        return device if self.reason(device) is None else CPU

    def check(self, device: str) -> None:
        """Raise BackendUnavailable for a lost device."""
        reason = self.reason(device)
        if reason is not None:
            raise BackendUnavailable(device, reason, "start the program again to use it")

    @staticmethod
    def _key(device: str) -> str:
        kind, _, number = device.partition(":")
        return f"{kind}:{int(number or 0)}"


LOST_DEVICES = LostDevices()
"""Those of this process."""
