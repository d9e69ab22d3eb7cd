"""plamo2: PLaMo 2, every second layer a state space, with norms before and after its parts."""

import math

from rase_models.architectures.attention import attend
from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.convolution import convolve
from rase_models.architectures.differences import Differences, FeedForward, HeadNorms, Mixed
from rase_models.architectures.positions import same_positions
from rase_models.program import Activate, Activation, GatedActivation, Program, RopePairing, StateScan


def build(b: ProgramBuilder) -> Program:
    """Build plamo2."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            head_norms=HeadNorms.OWN,
            feed_forward=FeedForward.MERGED,
            attention_scale=1 / math.sqrt(b.keys.require("attention.value_length", b.sizes.value_length)),
            required=("post_attention_norm", "post_ffw_norm"),
        ),
        _mix,
    )


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    """Emit attention where a layer has key heads, otherwise a state space."""
    if b.sizes.head_counts_kv[layer]:
        return attend(b, differences, layer, x)
    return _scan(b, layer, x)


def _scan(b: ProgramBuilder, layer: int, x: str) -> Mixed:
    """Emit a state space whose heads all read and write by the same keys."""
    inner, heads, prefix = (
        b.keys.count("ssm.inner_size"),
        b.keys.count("ssm.time_step_rank"),
        f"blk.{layer}.ssm_",
    )
    if inner % heads:
        raise b.keys.error("ssm.time_step_rank", f"a divisor of {inner}", heads)
    both, length = b.linear("gate_and_values", x, f"{prefix}in", 2 * inner), inner // heads
    gate = b.copy_parts("gate", both, heads, length, length)
    inputs = b.copy_parts("conv_in", both, heads, length, length, first=length)
    (values,) = convolve(b, inputs, f"{prefix}conv1d", (("scan_in", inner),), biased=False)
    step, b_part, c_part = _step_and_keys(b, prefix, values)
    step = b.linear("step", step, f"{prefix}dt", heads, bias=f"{prefix}dt.bias")
    b.emit(Activate(step, step, Activation.SOFTPLUS))
    decay, skip = (b.tensors.vector(f"{prefix}{name}", heads) for name in ("a", "d"))
    out, state = b.buffer("mixed", inner), b.state(inner * b.width(b_part))
    b.emit(StateScan(out, values, b_part, c_part, step, decay, skip, heads, 1, state))
    b.emit(GatedActivation(out, gate, out, Activation.SILU))
    return Mixed(out, f"{prefix}out")


def _step_and_keys(b: ProgramBuilder, prefix: str, x: str) -> tuple[str, str, str]:
    """Emit what steps are made of, and what writes and reads states, each normed: parts of one product."""
    length, total = b.keys.count("ssm.state_size"), b.tensors.rows_of(f"{prefix}x.weight")
    if total <= 2 * length:
        raise b.keys.error("ssm.state_size", f"less than half of {total} rows of {prefix}x.weight", length)
    whole = b.linear("keys_and_step", x, f"{prefix}x", total)
    b_part = b.copy_parts("scan_b", whole, 1, length, length)
    c_part = b.copy_parts("scan_c", whole, 1, length, length, first=length)
    rest = total - 2 * length
    step = b.copy_parts("scan_dt", whole, 1, rest, rest, first=2 * length)
    for kind, buffer in (("b", b_part), ("c", c_part), ("dt", step)):
        b.norm(buffer, buffer, f"{prefix}{kind}_norm")
    return step, b_part, c_part
