"""A layer with a gated delta rule: a convolution, the rule, a norm and a gate."""

from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.convolution import convolve
from rase_models.architectures.differences import Mixed
from rase_models.architectures.state_sizes import read_state_sizes
from rase_models.program import Activate, Activation, GatedActivation, GatedDelta


def apply_delta_rule(b: ProgramBuilder, layer: int, x: str) -> Mixed:
    """Emit the layer's first part."""
    sizes, prefix, epsilon = read_state_sizes(b), f"blk.{layer}.", b.keys.number(Norm.RMS.value)
    inner, heads, part = sizes.inner, sizes.heads, sizes.groups * sizes.length
    inputs = b.linear("conv_in", x, f"{prefix}attn_qkv", 2 * part + inner)
    gate = b.linear("gate", x, f"{prefix}attn_gate", inner)
    step = b.linear("step", x, f"{prefix}ssm_alpha", heads, bias=f"{prefix}ssm_dt.bias")
    b.emit(Activate(step, step, Activation.SOFTPLUS))
    beta = b.linear("beta", x, f"{prefix}ssm_beta", heads)
    b.emit(Activate(beta, beta, Activation.SIGMOID))
    widths = (("delta_q", part), ("delta_k", part), ("delta_v", inner))
    q, k, v = convolve(b, inputs, f"{prefix}ssm_conv1d", widths, biased=False)
    decay = b.tensors.vector(f"{prefix}ssm_a", heads)
    out, state = b.buffer("mixed", inner), b.state(inner * sizes.length)
    b.emit(GatedDelta(out, q, k, v, step, beta, decay, heads, sizes.groups, epsilon, state))
    b.norm(out, out, f"{prefix}ssm_norm", heads)
    b.emit(GatedActivation(out, gate, out, Activation.SILU))
    return Mixed(out, f"{prefix}ssm_out")
