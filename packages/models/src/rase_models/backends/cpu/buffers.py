"""Where the buffers of a Program lie: as float32 rows, as activation records, or both."""

from collections.abc import Mapping
from dataclasses import dataclass

from rase_models.backends.cpu.activations import PANEL_ROWS, RECORD_COLUMNS, panel_nbytes
from rase_models.backends.cpu.arena import Arena
from rase_models.backends.cpu.shapes import SPARE_ROWS

LANES = 16


def padded(width: int) -> int:
    """Return the width of a row in memory: whole vectors."""
    return -(-width // LANES) * LANES


@dataclass(frozen=True, slots=True)
class Floats:
    """Float32 rows: their address and the bytes between them."""

    address: int
    stride: int


@dataclass(frozen=True, slots=True)
class Records:
    """Activation records: their address, and their place in the memory that each thread has for one row."""

    address: int
    private_offset: int


class Buffers:
    """Hands out the memory of buffers when they are first asked for.

    Attributes:
        private_nbytes: how much memory of its own every thread needs.
    """

    def __init__(self, widths: Mapping[str, int], max_rows: int, arena: Arena) -> None:
        self._widths = widths
        self._rows = max_rows + SPARE_ROWS
        self._arena = arena
        self._floats: dict[str, Floats] = {}
        self._records: dict[str, Records] = {}
        self.private_nbytes = 0

    def width(self, name: str) -> int:
        """Return the number of values of a row."""
        return self._widths[name]

    def floats(self, name: str) -> Floats:
        """Return where a buffer's float32 rows are."""
        if name not in self._floats:
            stride = 4 * padded(self._widths[name])
            self._floats[name] = Floats(int(self._arena.take(self._rows * stride).ctypes.data), stride)
        return self._floats[name]

    def records(self, name: str) -> Records:
        """Return where a buffer's records are; its width is a multiple of 32."""
        if name not in self._records:
            columns = self._widths[name]
            panels = -(-self._rows // PANEL_ROWS)
            shared = self._arena.take(panels * panel_nbytes(PANEL_ROWS, columns))
            self._records[name] = Records(int(shared.ctypes.data), self.private_nbytes)
            self.private_nbytes += -(-panel_nbytes(1, columns) // 64) * 64
        return self._records[name]

    def can_have_records(self, name: str) -> bool:
        """Say whether a buffer's rows are whole records."""
        return self._widths[name] % RECORD_COLUMNS == 0
