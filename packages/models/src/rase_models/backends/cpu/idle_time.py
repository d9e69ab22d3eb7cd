"""How long processors had nothing to do."""

import os
from pathlib import Path

from rase_models.backends.cpu.cores import usable_processors

_STATISTICS = Path("/proc/stat")
_IDLE, _WAITING_FOR_DISK = 4, 5
"""Columns; see proc_stat(5)."""


def idle_seconds(statistics: Path = _STATISTICS) -> float | None:
    """Return how long the processors that this process may use were idle, in all, since the system started.

    None where the system does not tell.
    """
    names = {f"cpu{number}" for number in usable_processors()}
    try:
        lines = statistics.read_text(encoding="ascii").splitlines()
        mine = [columns for columns in map(str.split, lines) if columns and columns[0] in names]
        ticks = sum(int(columns[_IDLE]) + int(columns[_WAITING_FOR_DISK]) for columns in mine)
    except (OSError, ValueError, IndexError):
        return None
    return ticks / os.sysconf("SC_CLK_TCK") if mine else None
