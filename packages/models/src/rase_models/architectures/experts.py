"""The feed-forward network of a mixture of experts, in GGUF's merged tensors."""

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.program import MoeFfn

_SOFTMAX = 1
"""The value of `expert_gating_func`; 2 is a sigmoid."""


def has_experts(b: ProgramBuilder, layer: int) -> bool:
    """Tell whether a layer chooses among experts."""
    return b.sizes.expert_count > 0 and f"blk.{layer}.ffn_gate.weight" not in b.tensors


def experts(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
    """Emit the choice of experts and their networks; softmax over all, the weights of the chosen sum to 1."""
    sizes, prefix = b.sizes, f"blk.{layer}.ffn_"
    count, width, inner = sizes.expert_count, b.width(x), sizes.expert_length
    _check_gating(b)
    b.tensors.refuse(
        f"{prefix}gate.0.weight", "experts in separate tensors: convert the model again to merge them"
    )
    op = MoeFfn(
        out=b.buffer("update", width),
        x=x,
        router=b.tensors.matrix(f"{prefix}gate_inp.weight", count, width),
        gate=b.tensors.matrix(f"{prefix}gate_exps.weight", count, inner, width),
        up=b.tensors.matrix(f"{prefix}up_exps.weight", count, inner, width),
        down=b.tensors.matrix(f"{prefix}down_exps.weight", count, width, inner),
        experts=count,
        experts_used=sizes.experts_used,
        activation=differences.activation,
        scale=b.keys.number("expert_weights_scale", 1.0) * differences.residual_scale,
        gate_scales=_scales(b, differences, f"{prefix}gate_exps.scale"),
        up_scales=_scales(b, differences, f"{prefix}up_exps.scale"),
        down_scales=_scales(b, differences, f"{prefix}down_exps.scale"),
    )
    b.emit(op)
    return op.out


def _check_gating(b: ProgramBuilder) -> None:
    gating = b.keys.count("expert_gating_func", _SOFTMAX)
    if gating != _SOFTMAX:
        raise b.keys.error("expert_gating_func", f"{_SOFTMAX} (softmax)", gating)


def _scales(b: ProgramBuilder, differences: Differences, name: str) -> tuple[float, ...]:
    if not differences.feed_forward_scaled:
        b.tensors.ignore(name)
        return ()
    return b.tensors.values(name, b.sizes.expert_count) if name in b.tensors else ()
