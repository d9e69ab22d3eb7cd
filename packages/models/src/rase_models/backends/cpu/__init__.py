"""The CPU backend: programs run by compiled kernels on all cores."""

import platform
from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from rase_core.errors import BackendUnavailable
from rase_core.progress import Progress

from rase_models.backends.base import MemoryNeeds, Runner, Threads
from rase_models.gguf import TensorInfo, Weight
from rase_models.kv_type import KvType
from rase_models.program import Program

_NEEDED = ("llvmlite", "numba")


class CpuBackend:
    """Runs Programs on the CPU, faster with every core, and with the same bits whatever their number.

    Raises BackendUnavailable when the compiler is not installed.
    """

    name = "cpu"
    is_stand_in = False
    kv_types = (KvType.F16, KvType.F32, KvType.Q8_0)

    def __init__(self) -> None:
        missing = [module for module in _NEEDED if find_spec(module) is None]
        if missing:
            raise BackendUnavailable(
                self.name, f"the module {missing[0]!r} is not installed", "pip install 'rase-models[cpu]'"
            )

    def describe(self) -> str:
        """Say which machine, instructions and threads compute."""
        from rase_models.backends.cpu.instruction_set import instruction_set
        from rase_models.backends.cpu.thread_count import thread_counts

        return f"{platform.machine()}, {instruction_set().name}, threads: {thread_counts()[0]}"

    def block_nbytes(self, program: Program, kv_type: KvType | None = None) -> int:
        """Return the bytes of one KV block of every group."""
        from rase_models.backends.cpu.lowering.kv_places import KvPlaces

        return sum(KvPlaces.of(program, kv_type or self.kv_types[0]).block_nbytes)

    def memory_needs(
        self,
        program: Program,
        tensors: Mapping[str, TensorInfo],
        threads: Threads = None,
        context_length: int | None = None,
    ) -> MemoryNeeds:
        """Say what a program would take, by the tensors of its file. Raises BackendFailure as `load` does."""
        from rase_models.backends.cpu.memory_needs import memory_needs

        return memory_needs(program, tensors, threads, context_length or program.context_length)

    def load(
        self,
        program: Program,
        weights: Iterator[Weight],
        threads: Threads = None,
        progress: Progress | None = None,
        kv_type: KvType | None = None,
    ) -> Runner:
        """Pack the weights as they come.

        The first time on a machine this compiles, which `progress` hears of.
        """
        from rase_models.backends.cpu.runner import CpuRunner

        return CpuRunner(program, weights, threads, progress, kv_type=kv_type or self.kv_types[0])


backend = CpuBackend
