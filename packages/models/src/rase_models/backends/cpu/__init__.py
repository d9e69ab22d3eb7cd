"""The CPU backend: programs run by compiled kernels on all cores."""

from collections.abc import Iterator
from importlib.util import find_spec

from rase_core.errors import BackendUnavailable
from rase_core.progress import Progress

from rase_models.backends.base import Runner
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

    def load(
        self,
        program: Program,
        weights: Iterator[Weight],
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Runner:
        """Pack the weights as they come.

        The first time on a machine this compiles, which `progress` hears of.
        """
        from rase_models.backends.cpu.runner import CpuRunner

        return CpuRunner(program, weights, threads, progress)


backend = CpuBackend
