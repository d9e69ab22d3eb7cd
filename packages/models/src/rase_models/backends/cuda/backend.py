"""The CUDA backend, as `load_backend` gives it out."""

from collections.abc import Iterator, Mapping

from rase_core.progress import Progress

from rase_models.backends.base import BLOCK_TOKENS, MemoryNeeds, Threads
from rase_models.backends.cuda.cache import KV_NBYTES
from rase_models.backends.cuda.device import Device
from rase_models.backends.cuda.footprint import weights_nbytes, workspace_nbytes
from rase_models.backends.cuda.runner import MAX_ROWS, CudaRunner
from rase_models.gguf import TensorInfo, Weight
from rase_models.kv_type import KvType
from rase_models.program import Program


class CudaBackend:
    """Runs Programs on one NVIDIA GPU.

    Args:
        device: what computes; the GPU with number `ordinal` unless given.
    """

    name = "cuda"
    kv_types: tuple[KvType, ...] = (KvType.F16, KvType.F32)

    def __init__(self, device: Device | None = None, ordinal: int = 0) -> None:
        self._device = device or _gpu(ordinal)
        self.is_stand_in = self._device.is_stand_in

    def describe(self) -> str:
        """Name the GPU, its memory and what drives it."""
        return self._device.describe()

    def block_nbytes(self, program: Program, kv_type: KvType | None = None) -> int:
        """Return the bytes of one KV block of every group."""
        values = sum(layer.values for layer in program.kv_layers)
        return values * BLOCK_TOKENS * KV_NBYTES[kv_type or self.kv_types[0]]

    def memory_needs(
        self,
        program: Program,
        tensors: Mapping[str, TensorInfo],
        threads: Threads = None,
        context_length: int | None = None,
    ) -> MemoryNeeds:
        """Say what a program would take, by the tensors of its file."""
        return MemoryNeeds(
            weights_nbytes(program, tensors),
            workspace_nbytes(program, tensors, MAX_ROWS),
            MAX_ROWS,
            self._device.free_nbytes(),
        )

    def load(
        self,
        program: Program,
        weights: Iterator[Weight],
        threads: Threads = None,
        progress: Progress | None = None,
        kv_type: KvType | None = None,
    ) -> CudaRunner:
        """Put the weights on the device; threads are of no concern.

        Raises DeviceOutOfMemory when they are more than it has room for.
        """
        return CudaRunner(self._device, program, weights, kv_type or self.kv_types[0])


def _gpu(ordinal: int) -> Device:
    from rase_models.backends.cuda.cupy_device import CupyDevice

    return CupyDevice(ordinal)
