"""The op vocabulary: what a Program is made of.

Every op reads and writes named buffers, float32 [rows, width]. Names in fields called `weight`, `bias` and the
like are GGUF tensor names. Shapes of weights are in numpy order: a linear weight is [out, in].
"""

from dataclasses import dataclass
from enum import Enum


class Activation(Enum):
    """The nonlinearity of a gated activation."""

    SILU = "silu"
    GELU_TANH = "gelu_tanh"


class RopePairing(Enum):
    """Which elements of a head are rotated together."""

    ADJACENT = "adjacent"
    """Elements 2i and 2i+1 (llama)."""
    HALVES = "halves"
    """Elements i and i + dimensions/2 (neox: qwen, gemma)."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions of one kind of layer.

    Element pair i of a head at position p turns by `p * frequencies[i]`; both results are scaled by
    `magnitude`. All scaling (linear, llama3, YaRN, factor tensors of the file) is already in the frequencies.
    """

    pairing: RopePairing
    dimensions: int
    frequencies: tuple[float, ...]
    magnitude: float = 1.0


@dataclass(frozen=True, slots=True)
class Embed:
    """out = weight[token] * scale."""

    out: str
    weight: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """out = x / sqrt(mean(x²) + eps) * weight, over the whole row, or over each of `heads` equal parts of it."""

    out: str
    x: str
    weight: str
    eps: float
    heads: int = 1


@dataclass(frozen=True, slots=True)
class Linear:
    """out = x @ weight.T (+ bias)."""

    out: str
    x: str
    weight: str
    bias: str | None = None


@dataclass(frozen=True, slots=True)
class Rotate:
    """Turn `heads` heads of x in place by their position."""

    x: str
    heads: int
    rope: Rope


@dataclass(frozen=True, slots=True)
class Attention:
    """Append k and v to the cache of `layer`, then out = softmax(q·k * scale) v over the visible positions.

    A row sees the positions p of its sequence with `0 <= position - p`, and `< window` when a window is given.
    q is [head_count, key_length], k and v are [head_count_kv, key_length or value_length], out is
    [head_count, value_length] in each row; query head h reads KV head h // (head_count // head_count_kv).
    """

    out: str
    q: str
    k: str
    v: str
    layer: int
    head_count: int
    head_count_kv: int
    key_length: int
    value_length: int
    scale: float
    window: int | None = None


@dataclass(frozen=True, slots=True)
class GatedActivation:
    """out = activation(gate) * up."""

    out: str
    gate: str
    up: str
    activation: Activation


@dataclass(frozen=True, slots=True)
class Add:
    """out = x + y; out may be x."""

    out: str
    x: str
    y: str


@dataclass(frozen=True, slots=True)
class MoeFfn:
    """out = sum over the chosen experts, in order of their index, of weight * down(activation(gate(x)) * up(x)).

    The router's logits are x @ router.T; softmax over all experts, the `experts_used` largest are chosen (ties to
    the lower index), and their weights are divided by their sum when `normalise`, then multiplied by `scale`.
    Expert weights are [experts, out, in].
    """

    out: str
    x: str
    router: str
    gate: str
    up: str
    down: str
    experts: int
    experts_used: int
    activation: Activation
    normalise: bool = True
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class SelectOutputs:
    """out = the rows of x whose logits are wanted; ops that follow work on those rows alone."""

    out: str
    x: str


Op = Embed | RmsNorm | Linear | Rotate | Attention | GatedActivation | Add | MoeFfn | SelectOutputs
