"""Keys, values and states of sequences on the device."""

from collections.abc import Callable

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.cuda.device import Device, Memory, Source
from rase_models.kv_type import KvType
from rase_models.program import KvLayer, Program

KV_NBYTES = {KvType.F16: 2, KvType.F32: 4}
_NAMES = {KvType.F16: "F16", KvType.F32: "F32"}


def attention_source(kv_type: KvType) -> Source:
    """Return the kernels that read and write keys and values of a type."""
    return Source("attention.cu", (("KEPT", _NAMES[kv_type]),))


class Slots:
    """Equal slots in one memory, which grows; `on_move` hears of it once nothing uses the old one."""

    def __init__(self, device: Device, slot_nbytes: int, on_move: Callable[[], None]) -> None:
        self._device, self._slot_nbytes, self._on_move = device, slot_nbytes, on_move
        self._memory: Memory | None = None
        self._count = 0

    @property
    def address(self) -> int:
        """The address of the first slot."""
        return self._memory.address if self._memory else 0

    def reserve(self, count: int) -> None:
        """Make room for at least so many, all zero."""
        if count <= self._count:
            return
        grown = self._device.allocate(count * self._slot_nbytes)
        old, copied = self._memory, self._count * self._slot_nbytes
        if old is not None:
            self._device.copy(grown.address, old.address, copied)
        self._memory, self._count = grown, count
        try:
            if old is not None:
                self._device.release(old)
        finally:
            self._on_move()

    def copy(self, source: int, target: int) -> None:
        """Copy a slot."""
        nbytes = self._slot_nbytes
        self._device.copy(self.address + target * nbytes, self.address + source * nbytes, nbytes)

    def close(self) -> None:
        """Free the memory."""
        if self._memory is not None:
            self._device.release(self._memory)
            self._memory, self._count = None, 0


class LayerCache:
    """The keys and values of one attention layer, [blocks, BLOCK_TOKENS, heads, length]."""

    def __init__(
        self, device: Device, layer: KvLayer, group: int, kv_type: KvType, on_move: Callable[[], None]
    ) -> None:
        self.group = group
        position = layer.head_count_kv * KV_NBYTES[kv_type] * BLOCK_TOKENS
        self.keys = Slots(device, position * layer.key_length, on_move)
        self.values = Slots(device, position * layer.value_length, on_move)

    def reserve(self, blocks: int) -> None:
        """Grow to at least so many blocks."""
        self.keys.reserve(blocks)
        self.values.reserve(blocks)

    def copy_block(self, source: int, target: int) -> None:
        """Copy a block."""
        self.keys.copy(source, target)
        self.values.copy(source, target)

    def close(self) -> None:
        """Free the memory."""
        self.keys.close()
        self.values.close()


def layer_caches(
    device: Device, program: Program, kv_type: KvType, on_move: Callable[[], None]
) -> tuple[LayerCache, ...]:
    """Return the caches of a program's attention layers, with room for nothing."""
    groups = {layer: index for index, group in enumerate(program.kv_groups) for layer in group.layers}
    layers = enumerate(program.kv_layers)
    return tuple(LayerCache(device, layer, groups[index], kv_type, on_move) for index, layer in layers)


def state_slots(device: Device, program: Program, on_move: Callable[[], None]) -> list[Slots]:
    """Return the slots of a program's states, with room for none."""
    return [Slots(device, 4 * size, on_move) for size in program.state_sizes]
