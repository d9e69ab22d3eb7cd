"""Runs Programs on the CPU's cores."""

import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rase_core.decoder import Draws, TopLogits
from rase_core.progress import Progress

from rase_models.backends.base import Rows, Threads
from rase_models.backends.cpu import abi
from rase_models.backends.cpu.arena import Arena
from rase_models.backends.cpu.core_watch import CoreWatch
from rase_models.backends.cpu.instruction_set import instruction_set
from rase_models.backends.cpu.kernel_library import kernel_library
from rase_models.backends.cpu.lowering import Lowered, lower
from rase_models.backends.cpu.op_table import OpTable, kernels_of
from rase_models.backends.cpu.ranker import RANKER_KERNELS, Ranker
from rase_models.backends.cpu.repacker import Repacker
from rase_models.backends.cpu.run_memory import MAX_ROWS, RunMemory
from rase_models.backends.cpu.run_profile import RunProfile
from rase_models.backends.cpu.team import TEAM_KERNELS, Team
from rase_models.backends.cpu.thread_count import thread_counts
from rase_models.backends.cpu.weights import WeightLoader
from rase_models.backends.run_counters import counting
from rase_models.gguf import Weight
from rase_models.kv_type import KvType
from rase_models.program import MoeFfn, Program


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
        kv_type: KvType = KvType.F16,
    ) -> None:
        self._decoding, self._prefilling = thread_counts(threads)
        library, arena = kernel_library(), Arena()
        with Repacker(library, self._prefilling, progress) as repacker:
            packed = WeightLoader(repacker, arena).load(program, weights)
        lowered = lower(program, packed, MAX_ROWS, arena, fused=fused, kv_type=kv_type)
        kernels = kernels_of(lowered.rows)
        at_once = kernels.union(TEAM_KERNELS, RANKER_KERNELS)  # they compile side by side
        library.require(at_once, progress)
        table = OpTable(lowered.rows, {key: library.address(key) for key in kernels}, arena)
        self._team = Team(library, max(self._decoding, self._prefilling))
        self._watch = CoreWatch(self._team.threads)
        self._ranker = Ranker(library)
        self._vocab_size = program.vocab_size
        self._has_experts = any(isinstance(op, MoeFfn) for op in program.ops)
        self._memory: RunMemory | None = None
        self._profile: RunProfile | None = None
        try:
            self._load(table, lowered, arena)
        except BaseException:
            self.close()
            raise

    def _load(self, table: OpTable, lowered: Lowered, arena: Arena) -> None:
        """Give the program memory, and its op table to the team."""
        self._team.hold("arena", arena)
        self._memory = RunMemory(self._team, table, lowered, arena)
        self._team.load_program(table)
        self._profile = self._start_profile(lowered) if counting() else None

    def _start_profile(self, lowered: Lowered) -> RunProfile:
        profile = RunProfile(lowered.rows, self.cheap_rows)
        self._team.hold("profile", profile)
        self._team.set(abi.PROFILE, profile.address)
        return profile

    @property
    def max_rows(self) -> int:
        """The most rows of one run, and the most outputs."""
        return MAX_ROWS

    @property
    def cheap_rows(self) -> int:
        """As many as are multiplied while weights come from memory; rows have experts of their own."""
        return 1 if self._has_experts else instruction_set().cheap_rows

    @property
    def threads(self) -> int:
        """The most threads that decode."""
        return self._decoding

    def reserve(self, group: int, blocks: int) -> None:
        """Make room for at least so many KV blocks of a group; the contents of earlier ones stay.

        Raises what `run` raises.
        """
        self._usable_memory().reserve(group, blocks)

    def copy_block(self, group: int, source: int, target: int) -> None:
        """Copy a KV block of a group, all its layers. Raises what `run` raises."""
        self._usable_memory().copy_block(group, source, target)

    def reserve_states(self, slots: int) -> None:
        """Make room for at least so many slots of states. Raises what `run` raises."""
        self._usable_memory().reserve_states(slots)

    def copy_state(self, source: int, target: int) -> None:
        """Copy a slot of states. Raises what `run` raises."""
        self._usable_memory().copy_state(source, target)

    def run(self, rows: Rows) -> NDArray[np.float32]:
        """Compute float32 [outputs, vocab_size]; writes keys and values of all rows into the cache.

        Raises:
            BackendFailure: the runner is closed, or the process was forked since it was made.
        """
        memory = self._usable_memory()
        outputs, is_prefill = len(rows.outputs), len(rows.tokens) > rows.block_tables.shape[1]
        memory.take(rows)
        logits = memory.new_logits(outputs)
        seconds = self._watched_run(is_prefill)
        if self._profile is not None:
            self._profile.add(rows, int(seconds * 1e9))
        return logits[:outputs, : self._vocab_size]

    def top_logits(self, logits: NDArray[np.float32], k: int, *, with_totals: bool = False) -> TopLogits:
        """Return the `k` likeliest tokens, 1 to vocab, of each row float32 [rows, vocab]."""
        return self._ranker.top_logits(logits, k, with_totals=with_totals)

    def draw(self, logits: NDArray[np.float32], draws: Draws) -> NDArray[np.int32]:
        """Draw tokens, int32 [draws], from logits float32 [rows, vocab]; see LogitsRanker."""
        return self._ranker.draw(logits, draws)

    def _usable_memory(self) -> RunMemory:
        self._team.require_usable()
        if self._memory is None:
            raise RuntimeError("a runner without memory is used before it is loaded")
        return self._memory

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

    def close(self) -> None:
        """Stop threads and free memory; the runner is unusable afterwards."""
        self._team.close()
        self._memory = self._profile = None
