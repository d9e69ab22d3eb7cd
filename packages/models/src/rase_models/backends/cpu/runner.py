"""Runs Programs on the CPU's cores."""

import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rase_core.progress import Progress

from rase_models.backends.base import Rows, Threads
from rase_models.backends.cpu import abi, shapes
from rase_models.backends.cpu.arena import Arena, Region
from rase_models.backends.cpu.core_watch import CoreWatch
from rase_models.backends.cpu.kernel_library import KernelLibrary, kernel_library
from rase_models.backends.cpu.kv_blocks import KvBlocks
from rase_models.backends.cpu.lowering import Lowered, lower
from rase_models.backends.cpu.op_table import OpTable, kernels_of
from rase_models.backends.cpu.rope_tables import RopeTables
from rase_models.backends.cpu.run_profile import RunProfile
from rase_models.backends.cpu.team import TEAM_KERNELS, Team
from rase_models.backends.cpu.thread_count import thread_counts
from rase_models.backends.cpu.weights import WeightLoader
from rase_models.backends.run_counters import counting
from rase_models.gguf import Weight
from rase_models.program import Program

MAX_ROWS = 512
_FIRST_TABLE = 64


class CpuRunner:
    """A Program with its weights packed for the kernels, and the threads that run it. Not thread-safe."""

    def __init__(
        self,
        program: Program,
        weights: Iterator[Weight],
        threads: Threads = None,
        progress: Progress | None = None,
        *,
        fused: bool = True,
    ) -> None:
        library = kernel_library()
        library.require(TEAM_KERNELS, progress)
        self._decoding, self._prefilling = thread_counts(threads)
        self._team = Team(library, max(self._decoding, self._prefilling))
        self._watch = CoreWatch(self._team.threads)
        try:
            self._load(program, weights, library, progress, fused)
        except BaseException:
            self.close()
            raise

    def _load(
        self,
        program: Program,
        weights: Iterator[Weight],
        library: KernelLibrary,
        progress: Progress | None,
        fused: bool,
    ) -> None:
        """Pack the weights, lower the program to its op table, and give it memory."""
        arena = Arena()
        self._team.hold("arena", arena)
        packed = WeightLoader(library, self._team, arena, progress).load(program, weights)
        lowered = lower(program, packed, MAX_ROWS, arena, fused=fused)
        kernels = kernels_of(lowered.rows)
        library.require(kernels, progress)
        table = OpTable(lowered.rows, {key: library.address(key) for key in kernels}, arena)
        self._vocab_size = program.vocab_size
        self._ropes = RopeTables(table, lowered.rope_rows)
        self._blocks = KvBlocks(lowered.block_nbytes)
        self._team.hold("ropes", self._ropes)
        self._team.hold("blocks", self._blocks)
        self._set_up_memory(lowered, arena)
        self._team.load_program(table)
        self._profile = self._start_profile(lowered) if counting() else None

    def _start_profile(self, lowered: Lowered) -> RunProfile:
        profile = RunProfile(lowered.rows)
        self._team.hold("profile", profile)
        self._team.set(abi.PROFILE, profile.address)
        return profile

    def _set_up_memory(self, lowered: Lowered, arena: Arena) -> None:
        """Give the kernels their memory, and the arrays that runs are described in."""
        team, threads = self._team, self._team.threads
        self._logits_width = lowered.logits_stride // 4
        self._result_nbytes = shapes.span_result_nbytes(lowered.value_length) if lowered.value_length else 0
        self._partials: Region | None = None
        for base, stride, nbytes in (
            (abi.SCRATCH, abi.SCRATCH_STRIDE, lowered.scratch_nbytes),
            (abi.PRIVATE_RECORDS, abi.PRIVATE_STRIDE, lowered.private_nbytes),
        ):
            size = -(-(nbytes + shapes.GROUP_LINE) // 4096) * 4096
            team.set(base, int(arena.take(threads * size).ctypes.data))
            team.set(stride, size)
        self._alone = (False, False)
        self._rows = arena.take(4 * 4 * MAX_ROWS).view(np.int32).reshape(4, MAX_ROWS)
        for offset, row in zip(
            (abi.SEQUENCES, abi.POSITIONS, abi.TOKENS, abi.OUTPUT_INDICES), self._rows, strict=True
        ):
            team.set(offset, int(row.ctypes.data))
        self._make_block_tables(_FIRST_TABLE)

    @property
    def max_rows(self) -> int:
        """The most rows of one run, and the most outputs."""
        return MAX_ROWS

    @property
    def threads(self) -> int:
        """The most threads that decode."""
        return self._decoding

    def reserve(self, blocks: int) -> None:
        """Make room for at least so many KV blocks; the contents of earlier ones stay."""
        if blocks > len(self._blocks):
            self._team.settle()
            self._blocks.reserve(blocks)
            self._team.set(abi.KV_BLOCKS, int(self._blocks.addresses.ctypes.data))

    def copy_block(self, source: int, target: int) -> None:
        """Copy a KV block, all layers."""
        self._blocks.copy(source, target)

    def run(self, rows: Rows) -> NDArray[np.float32]:
        """Compute float32 [outputs, vocab_size]; writes keys and values of all rows into the cache.

        Raises:
            BackendFailure: the runner is closed, or the process was forked since it was made.
        """
        self._team.require_usable()
        count, outputs = len(rows.tokens), len(rows.outputs)
        self._describe(rows, count, outputs)
        self._make_room(int(rows.positions.max()), count)
        padded = -(-outputs // shapes.SPARE_ROWS) * shapes.SPARE_ROWS if outputs > 1 else outputs
        logits = np.empty((padded, self._logits_width), np.float32)
        self._team.set(abi.LOGITS_BASE, int(logits.ctypes.data))
        seconds = self._watched_run(count > len(rows.block_tables))
        if self._profile is not None:
            self._profile.add(count, len(rows.block_tables), int(seconds * 1e9))
        return logits[:outputs, : self._vocab_size]

    def _watched_run(self, is_prefill: bool) -> float:
        """Run with as many threads as there are cores for them; returns the seconds that it took."""
        team, start = self._team, time.perf_counter()
        threads = self._watch.threads(self._prefilling if is_prefill else self._decoding, start)
        before = team.processor_seconds(threads)
        team.run(threads)
        end = time.perf_counter()
        after = team.processor_seconds(threads)
        if before is not None and after is not None:
            self._watch.saw(threads, end - start, after - before, end)
        return end - start

    def _describe(self, rows: Rows, count: int, outputs: int) -> None:
        """Copy a run's description to where the kernels look for it."""
        team = self._team
        alone = (count == 1, outputs == 1)
        if alone != self._alone:  # a straggler decides by the row counts whether an op is its own to do
            team.settle()
            self._alone = alone
        described = self._rows
        described[0, :count] = rows.sequences
        described[1, :count] = rows.positions
        described[2, :count] = rows.tokens
        described[3, :outputs] = rows.outputs
        tables = rows.block_tables
        if tables.size > self._block_tables.size:
            self._make_block_tables(2 * tables.size)
        self._block_tables[: tables.size] = tables.reshape(-1)
        team.set(abi.BLOCK_TABLE_STRIDE, 4 * tables.shape[1])
        team.set(abi.ROWS, count)
        team.set(abi.OUTPUTS, outputs)

    def _make_block_tables(self, size: int) -> None:
        self._team.settle()
        memory = Region(4 * size)
        self._team.hold("block tables", memory)
        self._block_tables = memory.bytes.view(np.int32)
        self._team.set(abi.BLOCK_TABLES, memory.address)

    def _make_room(self, last_position: int, rows: int) -> None:
        """Grow the tables that depend on positions."""
        if last_position >= self._ropes.positions:
            self._team.settle()
            self._ropes.grow(last_position + 1)
        spans = last_position // shapes.SPAN + 1
        if spans > 1 and self._team.threads > 1:
            needed = shapes.SPLIT_ITEMS * self._team.threads * spans * self._result_nbytes
            if self._partials is None or self._partials.bytes.size < needed:
                self._team.settle()
                self._partials = Region(2 * needed)
                self._team.hold("partials", self._partials)
                self._team.set(abi.PARTIALS, self._partials.address)

    def close(self) -> None:
        """Stop threads and free memory; the runner is unusable afterwards."""
        self._team.close()
        for name in ("_ropes", "_blocks", "_rows", "_block_tables", "_partials", "_profile"):
            self.__dict__.pop(name, None)
