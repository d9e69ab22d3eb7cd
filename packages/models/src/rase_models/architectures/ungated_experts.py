"""Experts without gates, whose values are rectified and squared, perhaps in a narrower space of their own."""

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Experts
from rase_models.program import Activate, Activation, Add, MoeFfn


def ungated_experts(b: ProgramBuilder, choice: Experts, layer: int, x: str) -> str:
    """Emit the choice of experts, their networks, and the one that works on every row."""
    prefix, width = f"blk.{layer}.ffn_", b.width(x)
    inputs = x
    if f"{prefix}latent_down.weight" in b.tensors:
        inputs = b.linear("latent", x, f"{prefix}latent_down", b.keys.count("moe_latent_size"))
    update = _chosen(b, choice, layer, x, inputs)
    if inputs != x:
        update = b.linear("update", update, f"{prefix}latent_up", width)
    b.emit(Add(update, update, _shared(b, layer, x)))
    return update


def _chosen(b: ProgramBuilder, choice: Experts, layer: int, x: str, inputs: str) -> str:
    sizes, prefix, width = b.sizes, f"blk.{layer}.ffn_", b.width(inputs)
    count, inner = sizes.expert_count, sizes.expert_lengths[layer]
    up = b.tensors.matrix(f"{prefix}up_exps.weight", count, inner, width)
    scales = [_scales(b, f"{prefix}{kind}_exps.scale") for kind in ("up", "down")]
    op = MoeFfn(
        out=b.buffer("update", width),
        x=inputs,
        router=b.tensors.matrix(f"{prefix}gate_inp.weight", count, b.width(x)),
        gate=up,  # max(x, 0) * x is max(x, 0)²
        up=up,
        down=b.tensors.matrix(f"{prefix}down_exps.weight", count, width, inner),
        experts=count,
        experts_used=b.keys.require("expert_used_count", sizes.experts_used[layer]),
        activation=Activation.RELU,
        normalise=choice.normalise,
        scale=b.keys.number("expert_weights_scale", 1.0),
        gate_scales=scales[0],
        up_scales=scales[0],
        down_scales=scales[1],
        scoring=choice.scoring,
        groups=choice.groups,
        groups_used=choice.groups_used,
        router_x=None if inputs == x else x,
        selection_bias=b.tensors.vector(f"blk.{layer}.exp_probs_b.bias", count),
    )
    b.emit(op)
    return op.out


def _scales(b: ProgramBuilder, name: str) -> tuple[float, ...]:
    return b.tensors.values(name, b.sizes.expert_count) if name in b.tensors else ()


def _shared(b: ProgramBuilder, layer: int, x: str) -> str:
    prefix, width = f"blk.{layer}.ffn_", b.keys.count("expert_shared_feed_forward_length")
    up = b.linear("up", x, f"{prefix}up_shexp", width)
    b.emit(Activate(up, up, Activation.RELU_SQUARED))
    return b.linear("shared", up, f"{prefix}down_shexp", b.width(x))
