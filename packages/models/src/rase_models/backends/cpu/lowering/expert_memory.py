"""The memory that layers of experts work in."""

from dataclasses import dataclass

import numpy as np

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.activations import PANEL_ROWS
from rase_models.backends.cpu.arena import Arena
from rase_models.backends.cpu.buffers import Buffers


@dataclass(frozen=True, slots=True)
class ExpertSizes:
    """What layers must have in common to share their memory."""

    experts: int
    used: int
    columns: int
    hidden: int
    results: int


@dataclass(frozen=True, slots=True)
class ExpertMemory:
    """What layers of experts work in.

    Attributes:
        routes: address of the routes, see `abi`.
        slots: buffers of rows at their experts: `gathered`, `hidden` and `results`.
        rows: buffers of rows: `logits` of the router.
    """

    routes: int
    slots: Buffers
    rows: Buffers


def make_expert_memory(sizes: ExpertSizes, max_rows: int, arena: Arena) -> ExpertMemory:
    """Take the memory for so many rows."""
    entries = max_rows * sizes.used
    slots = entries + (PANEL_ROWS - 1) * min(sizes.experts, entries)
    widths = {"gathered": sizes.columns, "hidden": sizes.hidden, "results": sizes.results}
    return ExpertMemory(
        _make_routes(arena, entries, sizes.experts),
        Buffers(widths, slots, arena),
        Buffers({"logits": sizes.experts}, max_rows, arena),
    )


def _make_routes(arena: Arena, entries: int, experts: int) -> int:
    header = arena.take(abi.ROUTES_HEADER_BYTES).view(np.int64)
    sizes = {
        abi.CHOSEN: 4 * entries,
        abi.SHARES: 4 * entries,
        abi.ROW_SLOTS: 4 * entries,
        abi.GROUPS: abi.GROUP_BYTES * experts,
        abi.COUNTS: 8 * experts,
    }
    for offset, nbytes in sizes.items():
        header[offset // abi.WORD] = int(arena.take(nbytes).ctypes.data)
    return int(header.ctypes.data)
