"""How one architecture's decoder differs from llama's."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from rase_models.architectures.builder import Norm
from rase_models.program import Activation, Rope, Scoring


@dataclass(frozen=True, slots=True)
class LayerPositions:
    """How the attention of one layer treats positions; without a rope, heads do not turn.

    Queries turn like keys unless they have a rope of their own. A window that is `chunked` does not slide.
    """

    rope: Rope | None
    window: int | None = None
    query_rope: Rope | None = None
    chunked: bool = False


@dataclass(frozen=True, slots=True)
class Norms:
    """The norms before and after a part, without `blk.N.` and `.weight`.

    The one before is required, the one after counts when present; None where there never is one.

    Attributes:
        after_epsilon: of the norm after, where it is not the file's.
    """

    before: str | None
    after: str | None
    after_epsilon: float | None = None


class HeadNorms(Enum):
    """What the norms of queries and keys work on."""

    EACH = auto()
    """Each head, with one weight for all."""
    OWN = auto()
    """Each head, with a weight of its own."""
    TOGETHER = auto()
    """All heads as one."""
    AFTER_ROPE = auto()
    """Each head, after it was turned, with one weight for all."""
    TURNED = auto()
    """Each head that turns, after it was turned, without weights."""


class FeedForward(Enum):
    """The matrices of a dense feed-forward network."""

    GATED = auto()
    """`ffn_gate`, `ffn_up` and `ffn_down`."""
    MERGED = auto()
    """`ffn_up`, of which the first half of the rows is the gate, and `ffn_down`."""
    PLAIN = auto()
    """`ffn_up` and `ffn_down`, with the activation between them."""
    NONE = auto()
    """No network at all."""


@dataclass(frozen=True, slots=True)
class Experts:
    """How a layer chooses among experts.

    Attributes:
        normalise: whether the weights of the chosen sum to 1.
        groups, groups_used: into how many groups experts are divided, from how many of which some are chosen.
        weighs_inputs: whether weights multiply what goes into experts, not what comes out.
        shared_length: the inner width of the network that works on every row, 0 without one.
        factor: what all that they make is multiplied by.
    """

    normalise: bool = True
    scoring: Scoring = Scoring.SOFTMAX
    groups: int = 1
    groups_used: int = 1
    shared_length: int = 0
    weighs_inputs: bool = False
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Mixed:
    """What the first part of a layer has made of its rows: a buffer, and the matrix that it goes through.

    Where two work side by side, there is a second.

    Attributes:
        factor: what comes out of the matrix is multiplied by.
        kept: a buffer that the network reads besides; see `ProgramBuilder.selected`.
    """

    buffer: str
    output: str
    second: "Mixed | None" = None
    factor: float = 1.0
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class Differences:
    """How an architecture differs from llama.

    Attributes:
        positions: for each layer.
        learned_positions: whether `position_embd` is added to the embedding.
        required: tensors of every layer that others leave out, without `blk.N.` and `.weight`.
        feed_forward_scaled: whether the scalars of the feed-forward matrices count.
        parallel: whether the feed-forward network reads what attention reads.
        own_attention_norm: where the parts are parallel, the norm before attention alone, if the file has it.
        norm_weights: whether norms of rows have weights.
        embedding_norm: the norm of rows before the first layer, empty for one without weights.
        alibi: scores of the last head fall by 2^-alibi for each position of distance, those of others faster.
        residual_scale: what attention and feed-forward network are multiplied by.
        attention_cap, logit_cap: soft caps, 0 for none.
        sinks: whether heads of attention have a sink; it counts when present.
        unmixed, unfed: the layers that have no first part, or no feed-forward network.
        loops: how often rows go through all layers.
        loops_normed: whether they go through the last norm each time, not only in the end.
    """

    positions: Sequence[LayerPositions]
    activation: Activation = Activation.SILU
    norm: Norm = Norm.RMS
    attention_norms: Norms = Norms("attn_norm", "post_attention_norm")
    head_norms: HeadNorms = HeadNorms.EACH
    feed_forward_norms: Norms = Norms("ffn_norm", "post_ffw_norm")
    feed_forward: FeedForward = FeedForward.GATED
    feed_forward_scaled: bool = False
    experts: Experts = Experts()
    required: tuple[str, ...] = ()
    output_norm: str = "output_norm"
    parallel: bool = False
    own_attention_norm: str = "attn_norm_2"
    norm_weights: bool = True
    embedding_norm: str | None = None
    learned_positions: bool = False
    alibi: float = 0.0
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    attention_scale: float | None = None
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    sinks: bool = False
    unmixed: frozenset[int] = frozenset()
    unfed: frozenset[int] = frozenset()
    loops: int = 1
    loops_normed: bool = False
