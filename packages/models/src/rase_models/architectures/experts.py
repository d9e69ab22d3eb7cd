"""The feed-forward network of a mixture of experts, in GGUF's merged tensors."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts
from rase_models.program import Activation, Add, GatedActivation, Linear, MoeFfn, Scoring

SCORINGS: Mapping[int, Scoring] = MappingProxyType({1: Scoring.SOFTMAX, 2: Scoring.SIGMOID})
"""By the value of `expert_gating_func`."""
_SEPARATE = "experts in separate tensors: convert the model again to merge them"


def has_experts(b: ProgramBuilder, layer: int) -> bool:
    """Tell whether a layer chooses among experts."""
    return b.sizes.expert_count > 0 and f"blk.{layer}.ffn_gate.weight" not in b.tensors


def experts(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
    """Emit the choice of experts, their networks, and the one that works on every row."""
    update = choose_experts(b, differences, layer, x)
    if differences.experts.shared_length:
        b.emit(Add(update, update, _shared(b, differences, layer, x)))
    return update


def choose_experts(
    b: ProgramBuilder, differences: Differences, layer: int, x: str, router_x: str | None = None
) -> str:
    """Emit the choice of experts by what x says, or another buffer, and their networks."""
    prefix, inner = f"blk.{layer}.ffn_", b.sizes.expert_lengths[layer]
    read_scoring(b, differences.experts.scoring)  # which refuses a file that says otherwise
    b.tensors.refuse(f"{prefix}gate.0.weight", _SEPARATE)
    op = _moe_ffn(b, differences, layer, x, router_x)
    b.emit(_biased(b, _scaled(b, differences, op, prefix), layer, inner))
    return op.out


def _moe_ffn(b: ProgramBuilder, differences: Differences, layer: int, x: str, router_x: str | None) -> MoeFfn:
    """Ask for the matrices of a choice of experts."""
    sizes, prefix, choice = b.sizes, f"blk.{layer}.ffn_", differences.experts
    count, width, inner = sizes.expert_count, b.width(x), sizes.expert_lengths[layer]
    gate, up = _gate_and_up(b, prefix, count, inner, width)
    return MoeFfn(
        out=b.buffer("update", width),
        x=x,
        router=b.tensors.matrix(f"{prefix}gate_inp.weight", count, width),
        gate=gate,
        up=up,
        down=b.tensors.matrix(f"{prefix}down_exps.weight", count, width, inner),
        experts=count,
        experts_used=b.keys.require("expert_used_count", sizes.experts_used[layer]),
        activation=differences.activation,
        normalise=choice.normalise,
        scale=b.keys.number("expert_weights_scale", 1.0) * differences.residual_scale * choice.factor,
        scoring=choice.scoring,
        groups=choice.groups,
        groups_used=choice.groups_used,
        weighs_inputs=choice.weighs_inputs,
        router_x=router_x,
    )


def _biased(b: ProgramBuilder, op: MoeFfn, layer: int, inner: int) -> MoeFfn:
    """Ask for the biases of a choice of experts, which files may leave out."""
    prefix, count, width = f"blk.{layer}.ffn_", op.experts, b.width(op.out)
    return replace(
        op,
        router_bias=b.tensors.optional_vector(f"{prefix}gate_inp.bias", count),
        selection_bias=_selection_bias(b, layer, count),
        gate_bias=b.tensors.optional_vector(f"{prefix}gate_exps.bias", count, inner),
        up_bias=b.tensors.optional_vector(f"{prefix}up_exps.bias", count, inner),
        down_bias=b.tensors.optional_vector(f"{prefix}down_exps.bias", count, width),
    )


def _selection_bias(b: ProgramBuilder, layer: int, count: int) -> str | None:
    """Ask for the bias of the choice, which some writers leave without an ending."""
    name = f"blk.{layer}.exp_probs_b"
    return b.tensors.optional_vector(name if name in b.tensors else f"{name}.bias", count)


def read_scoring(b: ProgramBuilder, *possible: Scoring) -> Scoring:
    """Read how scores are made; the first possible way is the default."""
    gating = b.keys.count("expert_gating_func", 0)
    scoring = SCORINGS.get(gating, possible[0]) if gating else possible[0]
    if scoring not in possible or gating not in (0, *SCORINGS):
        numbers = (number for number, known in SCORINGS.items() if known in possible)
        raise b.keys.error("expert_gating_func", " or ".join(map(str, numbers)), gating)
    return scoring


def read_experts(b: ProgramBuilder, default: Scoring, shared_length: int | None = None) -> Experts:
    """Read the choice among experts of a file that says everything about it, but maybe not the scoring.

    The network that works on every row is as wide as so many experts as the file says, unless given.
    """
    if shared_length is None:
        shared_length = b.keys.count("expert_shared_count") * b.sizes.expert_length
    groups, groups_used = _read_groups(b)
    others = (scoring for scoring in Scoring if scoring is not default)
    return Experts(
        normalise=b.keys.boolean("expert_weights_norm", False),
        scoring=read_scoring(b, default, *others),
        groups=groups,
        groups_used=groups_used,
        shared_length=shared_length,
    )


def _read_groups(b: ProgramBuilder) -> tuple[int, int]:
    """Read how many groups of experts there are, and from how many of them some are chosen."""
    experts, chosen = b.sizes.expert_count, max(b.sizes.experts_used, default=0)
    groups = b.keys.count("expert_group_count", 1)
    if experts % groups:
        raise b.keys.error("expert_group_count", f"a divisor of {experts} experts", groups)
    used = b.keys.count("expert_group_used_count", groups, most=groups)
    if used * (experts // groups) < chosen:
        expected = f"groups of {experts // groups} that have the {chosen} experts that are chosen"
        raise b.keys.error("expert_group_used_count", expected, used)
    return groups, used


def _gate_and_up(b: ProgramBuilder, prefix: str, count: int, inner: int, width: int) -> tuple[str, str]:
    """Return the tensors of gates and ups, or the halves of the one that holds both."""
    merged = f"{prefix}gate_up_exps.weight"
    if merged not in b.tensors:
        names = (f"{prefix}gate_exps.weight", f"{prefix}up_exps.weight")
        gate, up = (b.tensors.matrix(name, count, inner, width) for name in names)
        return gate, up
    b.tensors.matrix(merged, count, 2 * inner, width)
    return b.slice(merged, 0, inner), b.slice(merged, inner, 2 * inner)


def _scaled(b: ProgramBuilder, differences: Differences, op: MoeFfn, prefix: str) -> MoeFfn:
    """Read the scalars of all experts for gates, ups and downs, where they count."""
    scales: list[tuple[float, ...]] = []
    for kind in ("gate", "up", "down"):
        name = f"{prefix}{kind}_exps.scale"
        if not differences.feed_forward_scaled:
            b.tensors.ignore(name)
        counts = differences.feed_forward_scaled and name in b.tensors
        scales.append(b.tensors.values(name, b.sizes.expert_count) if counts else ())
    return replace(op, gate_scales=scales[0], up_scales=scales[1], down_scales=scales[2])


def _shared(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
    """Emit the network that works on every row; some weigh its result by the row."""
    prefix, scaled = f"blk.{layer}.ffn_", differences.feed_forward_scaled
    width = differences.experts.shared_length
    if f"{prefix}gate_shexp.weight" in b.tensors:
        gate = b.linear("gate", x, f"{prefix}gate_shexp", width, scaled=scaled)
        up = b.linear("up", x, f"{prefix}up_shexp", width, scaled=scaled)
    else:
        gate, up = b.split_linear((("gate", width), ("up", width)), x, f"{prefix}up_shexp", scaled=scaled)
    b.emit(GatedActivation(gate, gate, up, differences.activation))
    down, factor = f"{prefix}down_shexp", differences.residual_scale * differences.experts.factor
    shared = b.linear("shared", gate, down, b.width(x), scaled=scaled, factor=factor)
    if f"{prefix}gate_inp_shexp.weight" in b.tensors:
        weight = b.tensors.vector(f"{prefix}gate_inp_shexp.weight", b.width(x))
        share = b.buffer("shared_gate", 1)
        b.emit(Linear(share, x, weight))
        b.emit(GatedActivation(shared, share, shared, Activation.SIGMOID))
    return shared
