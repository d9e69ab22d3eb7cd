"""The op vocabulary: what a Program is made of.

Every op reads and writes whole named buffers, float32 [rows, width]; CopyParts alone writes a part of one.
The fields that an op lists in `TENSORS` hold GGUF tensor names, or None. Shapes of weights are in numpy
order: a linear weight is [out, in]. Matrices come in any type that can be dequantised, vectors as F32, F16
or BF16; one tensor may be named by several ops (a tied embedding). An output buffer is never an input of
the same op, except where the op says so.
"""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from rase_models.program.mixing_ops import AddDots, Blend, Clamp, MixParts, Rescale, Scale, Sparsify, Xielu
from rase_models.program.rope import Rope
from rase_models.program.state_ops import GatedDelta, KeyedScan, SelectiveScan, Shift, ShortConv, StateScan


class Activation(Enum):
    """A nonlinearity."""

    SILU = "silu"
    """x / (1 + exp(-x))."""
    GELU_TANH = "gelu_tanh"
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x³)))."""
    SIGMOID = "sigmoid"
    """1 / (1 + exp(-x))."""
    SOFTPLUS = "softplus"
    """ln(1 + exp(x))."""
    EXP = "exp"
    """exp(x)."""
    RELU = "relu"
    """max(x, 0)."""
    RELU_SQUARED = "relu_squared"
    """max(x, 0)²."""
    NONE = "none"
    """x."""
    CLAMPED_SWIGLU = "clamped_swiglu"
    """Of gates only: with x = min(gate, 7), x / (1 + exp(-1.702 x)) * (max(-7, min(up, 7)) + 1)."""


class Scoring(Enum):
    """What the logits of a router become."""

    SOFTMAX = "softmax"
    """Their softmax over all experts."""
    SIGMOID = "sigmoid"
    """1 / (1 + exp(-x))."""


@dataclass(frozen=True, slots=True)
class Embed:
    """out = weight[token] * scale, or weight[position] * scale with `by_position`."""

    TENSORS: ClassVar[tuple[str, ...]] = ("weight",)
    out: str
    weight: str
    scale: float = 1.0
    by_position: bool = False


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """out = x / sqrt(mean(x²) + eps) * weight, over each of the `heads` equal parts of a row; out may be x.

    The weight is as long as one part and serves them all, or, not `shared`, as long as a row; None is 1.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("weight",)
    out: str
    x: str
    weight: str | None
    eps: float
    heads: int = 1
    shared: bool = True


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """out = (x - mean(x)) / sqrt(mean((x - mean(x))²) + eps) * weight + bias, over parts as in RmsNorm.

    The bias is as long as the weight. out may be x.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("weight", "bias")
    out: str
    x: str
    weight: str | None
    bias: str | None
    eps: float
    heads: int = 1
    shared: bool = True


@dataclass(frozen=True, slots=True)
class Linear:
    """out = (x @ weight.T) * scale + bias * bias_scale.

    A vector serves as a weight of one row.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("weight", "bias")
    out: str
    x: str
    weight: str
    bias: str | None = None
    scale: float = 1.0
    bias_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class HeadLinear:
    """out_h = x_h @ weight[h].T for each of the `heads` equal parts of x and of out.

    The weight is [heads, out, in], or [out, in] for one head.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("weight",)
    out: str
    x: str
    weight: str
    heads: int


@dataclass(frozen=True, slots=True)
class CopyParts:
    """out_p[out_first : out_first + width] = x_p[first : first + width] for each of the equal parts of out.

    Both buffers have `parts` parts, of `length` values in out; when x is `shared`, all of x is the part that
    each gets. The rest of out stays as it is.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ()
    out: str
    x: str
    parts: int
    length: int
    width: int
    first: int = 0
    out_first: int = 0
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Rotate:
    """Turn the `heads` equal parts of x in place by their position."""

    TENSORS: ClassVar[tuple[str, ...]] = ()
    x: str
    heads: int
    rope: Rope


@dataclass(frozen=True, slots=True)
class Attention:
    """Append k and v to the cache of `layer`, then out = softmax(q·k * scale) v over the visible positions.

    A row sees the positions p of its sequence with `0 <= position - p`, and `< window` when a window is
    given: itself, the rows before it in the same run, and what earlier runs left in the cache. A window that
    is `chunked` does not slide: its rows see the positions p with `p // window == position // window`.
    q is [head_count, key_length], k and v are [head_count_kv, key_length or value_length], out is
    [head_count, value_length] in each row; query head h reads KV head h // (head_count // head_count_kv).

    With a `soft_cap`, a score s becomes soft_cap * tanh(s / soft_cap). `sinks` is a vector of one more score
    for each query head, whose weight goes nowhere: it only takes part in the sum that weights are divided by.
    With `slopes`, one for each query head, slope * (p - position) is added to a score (ALiBi,
    https://arxiv.org/abs/2108.12409). Without k and v, which come together, nothing is appended: another op
    on the same layer has done so in this run.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ("sinks",)
    out: str
    q: str
    k: str | None
    v: str | None
    layer: int
    head_count: int
    head_count_kv: int
    key_length: int
    value_length: int
    scale: float
    window: int | None = None
    chunked: bool = False
    soft_cap: float | None = None
    sinks: str | None = None
    slopes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Activate:
    """out = activation(x + bias); out may be x."""

    TENSORS: ClassVar[tuple[str, ...]] = ("bias",)
    out: str
    x: str
    activation: Activation
    bias: str | None = None


@dataclass(frozen=True, slots=True)
class SoftCap:
    """x = cap * tanh(x / cap), in place."""

    TENSORS: ClassVar[tuple[str, ...]] = ()
    x: str
    cap: float


@dataclass(frozen=True, slots=True)
class GatedActivation:
    """out = activation(gate) * up; out may be gate or up.

    The gate is as wide as up, or has one value for each of equal parts of up, perhaps for all of it.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ()
    out: str
    gate: str
    up: str
    activation: Activation


@dataclass(frozen=True, slots=True)
class Add:
    """out = (x + y) * scale; out may be x."""

    TENSORS: ClassVar[tuple[str, ...]] = ()
    out: str
    x: str
    y: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class MoeFfn:
    """out = sum over the chosen experts, in order of their index, of w * down(activation(gate(x)) * up(x)).

    The router's logits are router_x @ router.T + router_bias, where router_x is x unless it is a buffer of
    its own, the scores what `scoring` makes of them. The `experts_used` experts with the largest score +
    selection_bias are chosen (ties to the lower index), and their scores, divided by their sum when
    `normalise`, then multiplied by `scale`, are the weights w. With several `groups` of neighbours, equal in
    number, only those are chosen from that are among the `groups_used` first by the sum of their two largest
    score + selection_bias.

    The router is [experts, in], the expert weights are [experts, out, in]. The three products of expert e
    are multiplied by `gate_scales[e]`, `up_scales[e]` and `down_scales[e]`; an empty tuple stands for ones.
    Then row e of a bias [experts, out] is added to them. With `weighs_inputs`, it is x that w multiplies,
    on its way into a chosen expert.
    """

    TENSORS: ClassVar[tuple[str, ...]] = (
        "router",
        "gate",
        "up",
        "down",
        "router_bias",
        "selection_bias",
        "gate_bias",
        "up_bias",
        "down_bias",
    )
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
    gate_scales: tuple[float, ...] = ()
    up_scales: tuple[float, ...] = ()
    down_scales: tuple[float, ...] = ()
    scoring: Scoring = Scoring.SOFTMAX
    groups: int = 1
    groups_used: int = 1
    weighs_inputs: bool = False
    router_x: str | None = None
    router_bias: str | None = None
    selection_bias: str | None = None
    gate_bias: str | None = None
    up_bias: str | None = None
    down_bias: str | None = None

    @property
    def multiplies_once(self) -> bool:
        """Whether gates and ups are the same products."""
        gate = (self.gate, self.gate_scales, self.gate_bias)
        return gate == (self.up, self.up_scales, self.up_bias)


@dataclass(frozen=True, slots=True)
class SelectOutputs:
    """out = the rows of x whose logits are wanted, perhaps none.

    A Program has a few of these in a row, at one place: x has all rows in each of them, and all other ops
    after the first one work on the wanted rows alone.
    """

    TENSORS: ClassVar[tuple[str, ...]] = ()
    out: str
    x: str


Op = (
    Embed
    | RmsNorm
    | LayerNorm
    | Linear
    | HeadLinear
    | CopyParts
    | Rotate
    | Attention
    | Activate
    | GatedActivation
    | SoftCap
    | Add
    | MoeFfn
    | ShortConv
    | StateScan
    | GatedDelta
    | SelectOutputs
    | Scale
    | Blend
    | MixParts
    | Rescale
    | Sparsify
    | Clamp
    | Xielu
    | AddDots
    | Shift
    | SelectiveScan
    | KeyedScan
)


def tensors_of(op: Op) -> tuple[str, ...]:
    """Return the names of the tensors that an op reads."""
    names = (getattr(op, field) for field in op.TENSORS)
    return tuple(name for name in names if name is not None)
