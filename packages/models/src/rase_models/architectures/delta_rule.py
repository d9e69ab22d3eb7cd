"""A layer with a gated delta rule: a convolution, the rule, a norm and a gate."""

from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.convolution import convolve
from rase_models.architectures.differences import Mixed
from rase_models.architectures.state_sizes import StateSizes, read_state_sizes
from rase_models.program import Activate, Activation, GatedActivation, GatedDelta


def apply_delta_rule(b: ProgramBuilder, layer: int, x: str, *, by_key_head: bool = False) -> Mixed:
    """Emit the layer's first part.

    Args:
        by_key_head: whether heads with the same key are neighbours, and one matrix makes their steps and
            betas, by key.
    """
    sizes, prefix, epsilon = read_state_sizes(b), f"blk.{layer}.", b.keys.number(Norm.RMS.value)
    inner, heads, part = sizes.inner, sizes.heads, sizes.groups * sizes.length
    b.tensors.refuse(f"{prefix}ssm_in.weight", "an old order of rows: convert the model again")
    inputs = b.linear("conv_in", x, f"{prefix}attn_qkv", 2 * part + inner)
    gate = b.linear("gate", x, f"{prefix}attn_gate", inner)
    step, beta = (_merged_steps if by_key_head else _steps)(b, sizes, prefix, x)
    b.emit(Activate(beta, beta, Activation.SIGMOID))
    widths = (("delta_q", part), ("delta_k", part), ("delta_v", inner))
    q, k, v = convolve(b, inputs, f"{prefix}ssm_conv1d", widths, biased=False)
    if by_key_head:
        q, k = (_repeated(b, sizes, buffer) for buffer in (q, k))
    keys = heads if by_key_head else sizes.groups
    decay = b.tensors.vector(f"{prefix}ssm_a", heads)
    out, state = b.buffer("mixed", inner), b.state(inner * sizes.length)
    b.emit(GatedDelta(out, q, k, v, step, beta, decay, heads, keys, epsilon, state))
    b.norm(out, out, f"{prefix}ssm_norm", heads)
    b.emit(GatedActivation(out, gate, out, Activation.SILU))
    return Mixed(out, f"{prefix}ssm_out")


def _steps(b: ProgramBuilder, sizes: StateSizes, prefix: str, x: str) -> tuple[str, str]:
    step = b.linear("step", x, f"{prefix}ssm_alpha", sizes.heads, bias=f"{prefix}ssm_dt.bias")
    b.emit(Activate(step, step, Activation.SOFTPLUS))
    return step, b.linear("beta", x, f"{prefix}ssm_beta", sizes.heads)


def _merged_steps(b: ProgramBuilder, sizes: StateSizes, prefix: str, x: str) -> tuple[str, str]:
    """Emit one product, of which each key has its heads' betas and then their steps."""
    share = sizes.heads // sizes.groups
    both = b.linear("beta_and_step", x, f"{prefix}ssm_ba", 2 * sizes.heads)
    beta = b.copy_parts("beta", both, sizes.groups, share, share)
    step = b.copy_parts("step", both, sizes.groups, share, share, first=share)
    bias = b.tensors.vector(f"{prefix}ssm_dt.bias", sizes.heads)
    b.emit(Activate(step, step, Activation.SOFTPLUS, bias))
    return step, beta


def _repeated(b: ProgramBuilder, sizes: StateSizes, x: str) -> str:
    """Emit every part of x once for each head that shares it."""
    share, length = sizes.heads // sizes.groups, sizes.length
    out = x
    for place in range(share if share > 1 else 0):
        out = b.copy_parts(f"{x}.heads", x, sizes.groups, share * length, length, out_first=place * length)
    return out
