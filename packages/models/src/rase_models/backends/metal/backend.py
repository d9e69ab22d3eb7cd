"""The Metal backend, as `load_backend` gives it out."""

from collections.abc import Iterator, Mapping

from rase_core.progress import Progress

from rase_models.backends.base import BLOCK_TOKENS, MemoryNeeds, Threads
from rase_models.backends.metal.device import Device, faults, this_device
from rase_models.backends.metal.matrices import matrix_nbytes
from rase_models.backends.metal.runner import MAX_ROWS, MetalRunner, device_weights
from rase_models.gguf import TensorInfo, Weight
from rase_models.kv_type import KvType
from rase_models.program import Program

_KV_NBYTES = {KvType.F32: 4, KvType.F16: 2}


class MetalBackend:
    """Runs Programs in MLX.

    Where there is no Apple GPU it computes on the CPU, slowly, in float32: that is for tests, and `auto` does
    not choose it.

    Args:
        device: what computes; what there is by default.
    """

    name = "metal"

    def __init__(self, device: Device | None = None) -> None:
        self._device = device or this_device()
        self.is_stand_in = not self._device.is_gpu
        self.kv_types: tuple[KvType, ...] = (
            (KvType.F32, KvType.F16) if self.is_stand_in else (KvType.F16, KvType.F32)
        )

    def describe(self) -> str:
        """Say what computes."""
        return self._device.describe()

    def block_nbytes(self, program: Program, kv_type: KvType | None = None) -> int:
        """Return the bytes of one KV block of every group."""
        values = sum(layer.values for layer in program.kv_layers)
        return values * BLOCK_TOKENS * _KV_NBYTES[kv_type or self.kv_types[0]]

    def memory_needs(
        self,
        program: Program,
        tensors: Mapping[str, TensorInfo],
        threads: Threads = None,
        context_length: int | None = None,
    ) -> MemoryNeeds:
        """Say what a program would take, by the tensors of its file."""
        weights = sum(matrix_nbytes(tensors[name], self._device) for name in program.tensors)
        workspace = 4 * MAX_ROWS * sum(program.buffers.values())
        return MemoryNeeds(weights, workspace, MAX_ROWS, self._device.free_nbytes())

    def load(
        self,
        program: Program,
        weights: Iterator[Weight],
        threads: Threads = None,
        progress: Progress | None = None,
        kv_type: KvType | None = None,
    ) -> MetalRunner:
        """Put the weights in MLX's forms; the number of threads is MLX's own affair.

        Raises DeviceOutOfMemory when they are more than the GPU has room for.
        """
        with faults():
            self._device.bound()
            kept = device_weights(program, weights, self._device)
        return MetalRunner(program, kept, kv_type or self.kv_types[0], self._device)
