"""The CPU backend: programs run by compiled kernels on all cores."""

import platform
from collections.abc import Iterator
from importlib.util import find_spec

from rase_core.errors import BackendUnavailable
from rase_core.progress import Progress

from rase_models.backends.base import Runner, Threads
from rase_models.gguf import Weight
from rase_models.program import Program

_NEEDED = ("llvmlite", "numba")


class CpuBackend:
    """Runs Programs on the CPU, faster with every core, and with the same bits whatever their number.

    Raises BackendUnavailable when the compiler is not installed.
    """

    name = "cpu"

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

    def block_nbytes(self, program: Program) -> int:
        """Return the bytes of one KV block, all layers."""
        from rase_models.backends.cpu.lowering.lowering import layer_offsets

        return layer_offsets(program.kv_layers)[-1]

    def load(
        self,
        program: Program,
        weights: Iterator[Weight],
        threads: Threads = None,
        progress: Progress | None = None,
    ) -> Runner:
        """Pack the weights as they come.

        The first time on a machine this compiles, which `progress` hears of.
        """
        from rase_models.backends.cpu.runner import CpuRunner

        return CpuRunner(program, weights, threads, progress)


backend = CpuBackend
