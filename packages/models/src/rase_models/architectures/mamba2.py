"""mamba2: Mamba 2, whose layers are state spaces, without attention and feed-forward networks."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.convolution import convolve
from rase_models.architectures.differences import Differences, FeedForward, LayerPositions, Mixed
from rase_models.architectures.state_sizes import read_state_sizes
from rase_models.program import Activate, Activation, GatedActivation, Program, StateScan


def build(b: ProgramBuilder) -> Program:
    """Build mamba2."""
    positions = (LayerPositions(None),) * b.sizes.block_count
    return build_decoder(b, Differences(positions, feed_forward=FeedForward.NONE), scan_states)


def scan_states(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    """Emit a state space with a norm in the end."""
    mixed = scan(b, layer, x)
    b.norm(mixed.buffer, mixed.buffer, f"blk.{layer}.ssm_norm", read_state_sizes(b).groups, shared=False)
    return mixed


def scan(b: ProgramBuilder, layer: int, x: str) -> Mixed:
    """Emit a state space: a convolution, the scan over the states, and a gate."""
    sizes, prefix = read_state_sizes(b), f"blk.{layer}.ssm_"
    inner, heads, part = sizes.inner, sizes.heads, sizes.groups * sizes.length
    outs = (("gate", inner), ("conv_in", inner + 2 * part), ("step", heads))
    gate, inputs, step = b.split_linear(outs, x, f"{prefix}in", biases={"step": f"{prefix}dt.bias"})
    b.emit(Activate(step, step, Activation.SOFTPLUS))
    widths = (("scan_in", inner), ("scan_b", part), ("scan_c", part))
    values, b_parts, c_parts = convolve(b, inputs, f"{prefix}conv1d", widths, biased=True)
    decay, skip = (b.tensors.vector(f"{prefix}{name}", heads, 1) for name in ("a", "d"))
    out, state = b.buffer("mixed", inner), b.state(inner * sizes.length)
    b.emit(StateScan(out, values, b_parts, c_parts, step, decay, skip, heads, sizes.groups, state))
    b.emit(GatedActivation(out, gate, out, Activation.SILU))
    return Mixed(out, f"{prefix}out")
