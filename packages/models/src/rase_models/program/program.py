"""A model as a list of ops on named buffers, with everything a backend must know to run it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rase_models.program.ops import Op, tensors_of


@dataclass(frozen=True, slots=True)
class KvLayer:
    """The cache of one attention layer, in float values per token: heads * length for keys and for values."""

    head_count_kv: int
    key_length: int
    value_length: int
    window: int | None = None

    @property
    def values(self) -> int:
        """How many values the layer keeps of a token."""
        return self.head_count_kv * (self.key_length + self.value_length)


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers that keep the same positions: all, or so many as a window has.

    Attributes:
        layers: indices into a Program's `kv_layers`.
        values: how many values the layers keep of a token.
    """

    window: int | None
    layers: tuple[int, ...]
    values: int


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """Rows `first` to `last` - 1 of a matrix or of every matrix of a stack, or such elements of a vector."""

    tensor: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Program:
    """An architecture's ops for one file.

    Whoever builds a Program has checked that every tensor it names is there, with the right shape and a
    usable type.

    Attributes:
        architecture: the file's `general.architecture`.
        ops: in order of execution. The last one writes the buffer `logits`, [outputs, vocab_size].
        buffers: the width, in float32 values, of a row of every buffer that the ops name.
        kv_layers: the caches, indexed by the `layer` of attention ops.
        state_sizes: float32 values that a sequence keeps besides caches, indexed by the `state` of ops.
        slices: names, which the ops use like those of tensors, for parts of tensors.
    """

    architecture: str
    vocab_size: int
    context_length: int
    ops: tuple[Op, ...]
    buffers: Mapping[str, int]
    kv_layers: tuple[KvLayer, ...]
    slices: Mapping[str, TensorSlice] = field(default_factory=dict)
    state_sizes: tuple[int, ...] = ()

    @property
    def kv_groups(self) -> tuple[KvGroup, ...]:
        """The layers by their window, which have their blocks of the KV cache in common."""
        windows = dict.fromkeys(layer.window for layer in self.kv_layers)
        return tuple(self._kv_group(window) for window in windows)

    def _kv_group(self, window: int | None) -> KvGroup:
        layers = tuple(index for index, layer in enumerate(self.kv_layers) if layer.window == window)
        return KvGroup(window, layers, sum(self.kv_layers[index].values for index in layers))

    @property
    def tensors(self) -> frozenset[str]:
        """The names of all tensors that the ops read; the file may hold others, which nobody needs."""
        names = (name for op in self.ops for name in tensors_of(op))
        return frozenset(self.slices[name].tensor if name in self.slices else name for name in names)
