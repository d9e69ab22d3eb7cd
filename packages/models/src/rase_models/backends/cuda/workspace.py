"""The buffers that runs compute in."""

from rase_models.backends.cuda.device import Device, Memory

SMALL = 8
"""Rows of the runs that are recorded."""


class Workspace:
    """Memory by name, for few rows or for as many as there may be.

    Memory that has become too small is kept, since recorded runs use it.
    """

    def __init__(self, device: Device, max_rows: int) -> None:
        self._device, self._max_rows = device, max_rows
        self._memories: dict[tuple[str, bool], Memory] = {}
        self._outgrown: list[Memory] = []

    def rows(self, name: str, rows: int, row_nbytes: int) -> int:
        """Return the address of so many rows."""
        is_small = rows <= SMALL
        return self._reserved((name, is_small), (SMALL if is_small else self._max_rows) * row_nbytes)

    def whole(self, name: str, nbytes: int) -> int:
        """Return the address of so many bytes."""
        return self._reserved((name, False), nbytes)

    def _reserved(self, key: tuple[str, bool], nbytes: int) -> int:
        held = self._memories.get(key)
        if held is None or held.nbytes < nbytes:
            if held is not None:
                self._outgrown.append(held)
            self._memories[key] = self._device.allocate(nbytes)
        return self._memories[key].address

    def close(self) -> None:
        """Free the memory."""
        for memory in (*self._memories.values(), *self._outgrown):
            self._device.release(memory)
        self._memories.clear()
        self._outgrown.clear()
