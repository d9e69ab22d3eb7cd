"""The memory that the runs of a loaded Program use, and where the kernels find it."""

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import Rows
from rase_models.backends.cpu import abi, shapes
from rase_models.backends.cpu.arena import Arena, Region
from rase_models.backends.cpu.kv_blocks import KvBlocks
from rase_models.backends.cpu.lowering import Lowered
from rase_models.backends.cpu.op_table import OpTable
from rase_models.backends.cpu.rope_tables import RopeTables
from rase_models.backends.cpu.team import Team

MAX_ROWS = 512
GROWTH = 2
"""How many times as large as needed a table becomes that grows."""
_FIRST_TABLE = 64
_PAGE = 4096


class RunMemory:
    """The KV blocks, the description of a run, and tables that grow. Nothing moves while a run uses it.

    When memory does not suffice, MemoryError comes before anything has changed.
    """

    def __init__(self, team: Team, table: OpTable, lowered: Lowered, arena: Arena) -> None:
        self._team = team
        self._blocks = [KvBlocks(nbytes) for nbytes in lowered.block_nbytes]
        self._states = KvBlocks(lowered.state_nbytes)
        self._ropes = RopeTables(table, lowered.rope_rows)
        team.hold("blocks", self._blocks)
        team.hold("states", self._states)
        team.hold("ropes", self._ropes)
        self._logits_width = lowered.logits_stride // 4
        self._value_length = lowered.value_length
        self._partials_nbytes = 0
        self._alone = (False, False)
        self._set_up_threads(lowered, arena)
        self._rows = self._set_up_rows(arena)
        self._block_tables = self._new_block_tables(_FIRST_TABLE)
        self._groups = arena.take(8 * len(self._blocks)).view(np.int64)
        team.set(abi.KV_BLOCKS, int(self._groups.ctypes.data))

    def _set_up_threads(self, lowered: Lowered, arena: Arena) -> None:
        """Give every thread memory of its own."""
        for base, stride, nbytes in (
            (abi.SCRATCH, abi.SCRATCH_STRIDE, lowered.scratch_nbytes),
            (abi.PRIVATE_RECORDS, abi.PRIVATE_STRIDE, lowered.private_nbytes),
        ):
            size = -(-(nbytes + shapes.GROUP_LINE) // _PAGE) * _PAGE
            self._team.set(base, int(arena.take(self._team.threads * size).ctypes.data))
            self._team.set(stride, size)

    def _set_up_rows(self, arena: Arena) -> NDArray[np.int32]:
        words = (abi.SEQUENCES, abi.POSITIONS, abi.TOKENS, abi.OUTPUT_INDICES, abi.STATES)
        rows = arena.take(len(words) * 4 * MAX_ROWS).view(np.int32).reshape(len(words), MAX_ROWS)
        for offset, row in zip(words, rows, strict=True):
            self._team.set(offset, int(row.ctypes.data))
        return rows

    def reserve(self, group: int, blocks: int) -> None:
        """Make room for at least so many KV blocks of a group; the contents of earlier ones stay."""
        if blocks > len(self._blocks[group]):
            self._team.settle()
            self._blocks[group].reserve(blocks)
            self._groups[group] = self._blocks[group].addresses.ctypes.data

    def copy_block(self, group: int, source: int, target: int) -> None:
        """Copy a KV block of a group, all its layers."""
        self._blocks[group].copy(source, target)

    def reserve_states(self, slots: int) -> None:
        """Make room for at least so many slots of states; the contents of earlier ones stay."""
        if slots > len(self._states):
            self._team.settle()
            self._states.reserve(slots)
            self._team.set(abi.STATE_SLOTS, int(self._states.addresses.ctypes.data))

    def copy_state(self, source: int, target: int) -> None:
        """Copy a slot of states."""
        self._states.copy(source, target)

    def take(self, rows: Rows) -> None:
        """Copy a run's description to where the kernels look for it, and make room for its positions."""
        count, outputs = len(rows.tokens), len(rows.outputs)
        self._settle_if_alone_changes(count, outputs)
        self._make_room(int(rows.positions.max()))
        self._take_block_tables(rows.block_tables)
        described = self._rows
        described[0, :count] = rows.sequences
        described[1, :count] = rows.positions
        described[2, :count] = rows.tokens
        described[3, :outputs] = rows.outputs
        described[4, : len(rows.states)] = rows.states
        self._team.set(abi.ROWS, count)
        self._team.set(abi.OUTPUTS, outputs)

    def new_logits(self, outputs: int) -> NDArray[np.float32]:
        """Return float32 [at least outputs, at least vocab_size] for the next run to write."""
        padded = -(-outputs // shapes.SPARE_ROWS) * shapes.SPARE_ROWS if outputs > 1 else outputs
        logits = np.empty((padded, self._logits_width), np.float32)
        self._team.set(abi.LOGITS_BASE, int(logits.ctypes.data))
        return logits

    def _settle_if_alone_changes(self, count: int, outputs: int) -> None:
        """A straggler decides by the row counts whether an op is its own to do."""
        alone = (count == 1, outputs == 1)
        if alone != self._alone:
            self._team.settle()
            self._alone = alone

    def _take_block_tables(self, tables: NDArray[np.int32]) -> None:
        if tables.size > self._block_tables.size:
            self._block_tables = self._new_block_tables(GROWTH * tables.size)
        self._block_tables[: tables.size] = tables.reshape(-1)
        _, sequences, blocks = tables.shape
        self._team.set(abi.BLOCK_TABLE_STRIDE, 4 * blocks)
        self._team.set(abi.BLOCK_TABLES_STRIDE, 4 * sequences * blocks)

    def _new_block_tables(self, size: int) -> NDArray[np.int32]:
        memory = self._replace("block tables", abi.BLOCK_TABLES, 4 * size)
        return memory.bytes.view(np.int32)

    def _make_room(self, last_position: int) -> None:
        """Grow the tables that depend on positions."""
        if last_position >= self._ropes.positions:
            self._team.settle()
            self._ropes.grow(last_position + 1)
        needed = shapes.partials_nbytes(self._team.threads, last_position + 1, self._value_length)
        if needed > self._partials_nbytes:
            self._partials_nbytes = GROWTH * needed
            self._replace("partials", abi.PARTIALS, self._partials_nbytes)

    def _replace(self, name: str, word: int, nbytes: int) -> Region:
        """Put new memory in the place of what has this name."""
        self._team.settle()
        memory = Region(nbytes)
        self._team.hold(name, memory)
        self._team.set(word, memory.address)
        return memory
