"""lfm2: LFM2, most of whose layers are gated convolutions over a few tokens."""

from rase_models.architectures.attention import attend
from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts, Mixed
from rase_models.architectures.positions import same_positions
from rase_models.program import Activation, GatedActivation, Program, RopePairing, ShortConv


def build(b: ProgramBuilder) -> Program:
    """Build lfm2."""
    return build_with(b, Experts())


def build_with(b: ProgramBuilder, experts: Experts) -> Program:
    """Build lfm2, with experts where its layers have them; a window counts where the file gives one."""
    window = b.keys.count("attention.sliding_window", 0) or None
    differences = Differences(
        same_positions(b, RopePairing.HALVES, window=window),
        required=("attn_q_norm", "attn_k_norm"),
        output_norm="token_embd_norm",
        experts=experts,
    )
    return build_decoder(b, differences, _mix)


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    """Emit attention where a layer has key heads, otherwise a convolution."""
    if b.sizes.head_counts_kv[layer]:
        return attend(b, differences, layer, x)
    return _convolve(b, layer, x)


def _convolve(b: ProgramBuilder, layer: int, x: str) -> Mixed:
    width, prefix = b.width(x), f"blk.{layer}.shortconv."
    taps = b.keys.count("shortconv.l_cache")
    outs = (("gate_in", width), ("gate_out", width), ("conv_in", width))
    gate_in, gate_out, inputs = b.split_linear(outs, x, f"{prefix}in_proj")
    b.emit(GatedActivation(inputs, gate_in, inputs, Activation.NONE))
    out, weight = b.buffer("mixed", width), b.tensors.vector(f"{prefix}conv.weight", width, taps)
    b.emit(ShortConv(out, inputs, weight, None, taps, b.state((taps - 1) * width)))
    b.emit(GatedActivation(out, gate_out, out, Activation.NONE))
    return Mixed(out, f"{prefix}out_proj")
