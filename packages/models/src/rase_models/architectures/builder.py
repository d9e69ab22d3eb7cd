"""What an architecture builds its Program with: checked tensors, named buffers, a list of ops."""

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType

from rase_models.architectures.hyperparameters import read_hyperparameters
from rase_models.architectures.keys import ArchitectureKeys
from rase_models.architectures.tensors import TensorTable
from rase_models.gguf import GgufFile
from rase_models.program import (
    Attention,
    CopyParts,
    Embed,
    KvLayer,
    LayerNorm,
    Linear,
    Op,
    Program,
    RmsNorm,
    SelectOutputs,
    SoftCap,
    TensorSlice,
)

EMBEDDING = "token_embd.weight"


class Norm(Enum):
    """A kind of norm, by the key of its epsilon."""

    RMS = "attention.layer_norm_rms_epsilon"
    LAYER = "attention.layer_norm_epsilon"


class ProgramBuilder:
    """Collects the ops of a Program for one file; everything it is told is checked against the file at once.

    Methods that compute something emit the op and return the name of the buffer that holds the result.

    Attributes:
        used_context: the most tokens that a sequence will have.
    """

    def __init__(self, file: GgufFile, context_length: int | None = None) -> None:
        self.keys = ArchitectureKeys(file)
        self.tensors = TensorTable(file)
        self.sizes = read_hyperparameters(self.keys, max_blocks=len(self.tensors))
        self.tensors.ignore_blocks(self.sizes.block_count, self.sizes.predicting_blocks)
        self.used_context = context_length or self.sizes.context_length
        self._longest_context = self.sizes.context_length
        self.vocab_size = self.tensors.rows_of(EMBEDDING)
        self._ops: list[Op] = []
        self._buffers: dict[str, int] = {}
        self._kv_layers: list[KvLayer] = []
        self._slices: dict[str, TensorSlice] = {}
        self._state_sizes: list[int] = []

    def limit_context(self, length: int) -> None:
        """Let sequences be no longer than this, where a Program computes what its model does only so far."""
        self._longest_context = min(self._longest_context, length)

    def emit(self, op: Op) -> None:
        """Append an op."""
        self._ops.append(op)

    def buffer(self, name: str, width: int) -> str:
        """Return a buffer of this name and width, of a longer name where layers differ in width."""
        known = self._buffers.setdefault(name, width)
        if known == width:
            return name
        return self.buffer(f"{name}.{width}", width)

    def width(self, buffer: str) -> int:
        """Return the width of a buffer."""
        return self._buffers[buffer]

    def kv_layer(self, layer: KvLayer) -> int:
        """Add a cache and return its index."""
        self._kv_layers.append(layer)
        return len(self._kv_layers) - 1

    def state(self, size: int) -> int:
        """Add a state of so many values and return its index."""
        self._state_sizes.append(size)
        return len(self._state_sizes) - 1

    def embed(self, out: str, scale: float = 1.0) -> str:
        """Look tokens up."""
        width = self.sizes.embedding_length
        weight = self.tensors.matrix(EMBEDDING, self.vocab_size, width)
        self.emit(Embed(self.buffer(out, width), weight, scale))
        return out

    def norm(
        self,
        out: str,
        x: str,
        name: str | None,
        heads: int = 1,
        *,
        kind: Norm = Norm.RMS,
        shared: bool = True,
        epsilon: float | None = None,
    ) -> str:
        """Normalise x, or each of its heads, into `out`, which may be x, by NAME.weight if there is a name.

        Args:
            shared: whether one weight serves all heads, otherwise the tensor is [heads, length]. With a layer
                norm, NAME.bias counts when present.
            epsilon: where it is not what the file says.
        """
        width = self.width(x)
        out, epsilon = self.buffer(out, width), epsilon or self.keys.number(kind.value)
        shape = (width // heads,) if shared else (heads, width // heads)
        weight = None if name is None else self.tensors.vector(self._weight_of(name), *shape)
        if kind is Norm.RMS:
            self.emit(RmsNorm(out, x, weight, epsilon, heads, shared))
        else:
            bias = None if name is None else self.tensors.optional_vector(f"{name}.bias", *shape)
            self.emit(LayerNorm(out, x, weight, bias, epsilon, heads, shared))
        return out

    def _weight_of(self, name: str) -> str:
        """Return the name of a norm's weight, which some writers leave without an ending."""
        return name if name in self.tensors else f"{name}.weight"

    def linear(
        self,
        out: str,
        x: str,
        name: str,
        width: int,
        *,
        scaled: bool = True,
        scaled_bias: bool = False,
        factor: float = 1.0,
        bias: str | None = None,
    ) -> str:
        """Multiply x with the matrix NAME.weight; NAME.bias and the scalar NAME.scale count when present.

        Args:
            width: the width of the result.
            scaled: whether the scalar counts.
            scaled_bias: whether the scalar multiplies the bias too.
            factor: what the result is multiplied by in the end.
            bias: a bias of another name, which is required.
        """
        weight = self.tensors.matrix(f"{name}.weight", width, self.width(x))
        if bias is None:
            bias = self.tensors.optional_vector(f"{name}.bias", width)
        else:
            self.tensors.vector(bias, width)
        scale = self.scale(name, counts=scaled)
        out = self.buffer(out, width)
        self.emit(Linear(out, x, weight, bias, scale * factor, (scale if scaled_bias else 1.0) * factor))
        return out

    def split_linear(
        self,
        outs: Sequence[tuple[str, int]],
        x: str,
        name: str,
        *,
        scaled: bool = True,
        biases: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[str, ...]:
        """Multiply x with the matrix NAME.weight, whose rows make several buffers of these widths in turn.

        Buffers may have biases of their own, where NAME has none.
        """
        total = sum(width for _, width in outs)
        weight = self.tensors.matrix(f"{name}.weight", total, self.width(x))
        bias = self.tensors.optional_vector(f"{name}.bias", total)
        scale = self.scale(name, counts=scaled)
        first, buffers = 0, []
        for out, width in outs:
            rows = (first, first + width)
            part, part_bias = self.slice(weight, *rows), bias and self.slice(bias, *rows)
            if out in biases:
                part_bias = self.tensors.vector(biases[out], width)
            buffers.append(self.buffer(out, width))
            self.emit(Linear(buffers[-1], x, part, part_bias, scale))
            first += width
        return tuple(buffers)

    def slice(self, tensor: str, first: int, last: int) -> str:
        """Return a name for rows of a tensor that has been asked for."""
        name = f"{tensor}[{first}:{last}]"
        self._slices[name] = TensorSlice(tensor, first, last)
        return name

    def scale(self, name: str, *, counts: bool = True) -> float:
        """Read the scalar NAME.scale, 1 when there is none or it does not count."""
        tensor = f"{name}.scale"
        if not counts:
            self.tensors.ignore(tensor)
        return self.tensors.values(tensor, 1)[0] if counts and tensor in self.tensors else 1.0

    def copy_parts(
        self,
        out: str,
        x: str,
        parts: int,
        length: int,
        width: int,
        *,
        first: int = 0,
        out_first: int = 0,
        shared: bool = False,
    ) -> str:
        """Copy `width` values of each part of x, or of x, to each part of `out`, of `length` values."""
        out = self.buffer(out, parts * length)
        self.emit(CopyParts(out, x, parts, length, width, first, out_first, shared))
        return out

    def select_outputs(self, x: str) -> str:
        """Keep only the rows whose logits are wanted."""
        out = self.buffer(f"{x}.outputs", self.width(x))
        self.emit(SelectOutputs(out, x))
        return out

    def selected(self, x: str) -> str:
        """Return the buffer that holds the wanted rows of x, if these have been selected, otherwise x."""
        selected = f"{x}.outputs"
        return selected if selected in self._buffers else x

    def output(self, x: str, *, factor: float = 1.0, soft_cap: float = 0.0) -> None:
        """Turn normalised rows into logits, times a factor, soft capped unless the cap is 0.

        Without a matrix of its own the output uses the embedding's.
        """
        name = "output" if "output.weight" in self.tensors else EMBEDDING.removesuffix(".weight")
        weight = self.tensors.matrix(f"{name}.weight", self.vocab_size, self.width(x))
        bias = self.tensors.optional_vector("output.bias", self.vocab_size)
        logits, scale = self.buffer("logits", self.vocab_size), self.scale("output") * factor
        self.emit(Linear(logits, x, weight, bias, scale, factor))
        if soft_cap:
            self.emit(SoftCap(logits, soft_cap))

    def program(self) -> Program:
        """Return the finished Program.

        Raises InvalidGguf when the file has tensors that it does not use, or layers that share a cache and
        differ in its shape.
        """
        self.tensors.check_all_asked()
        for op in self._ops:
            if isinstance(op, Attention):
                self._check_cache(op)
        return Program(
            architecture=self.keys.architecture,
            vocab_size=self.vocab_size,
            context_length=self._longest_context,
            ops=tuple(self._ops),
            buffers=dict(self._buffers),
            kv_layers=tuple(self._kv_layers),
            slices=dict(self._slices),
            state_sizes=tuple(self._state_sizes),
        )

    def _check_cache(self, op: Attention) -> None:
        """Kernels find keys and values by what the op says of them, and do not look at the cache's shape."""
        cache = self._kv_layers[op.layer]
        read = KvLayer(op.head_count_kv, op.key_length, op.value_length, op.window)
        if read != cache:
            raise self.keys.error("attention.head_count_kv", f"the same for layers that share {cache}", read)
