"""A layer with a state of a few values for every channel: a convolution, the scan over the states, a gate."""

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.convolution import convolve
from rase_models.architectures.differences import Differences, Mixed
from rase_models.program import Activate, Activation, GatedActivation, SelectiveScan


def scan_channels(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    """Emit the layer's first part; what steps and states are read from is normed where the file says so."""
    inner, prefix = b.keys.count("ssm.inner_size"), f"blk.{layer}.ssm_"
    inputs, gate = b.split_linear((("conv_in", inner), ("gate", inner)), x, f"{prefix}in")
    (values,) = convolve(b, inputs, f"{prefix}conv1d", (("scan_in", inner),), biased=True)
    step, b_part, c_part = _step_and_keys(b, prefix, values)
    step = b.linear("step", step, f"{prefix}dt", inner, bias=f"{prefix}dt.bias")
    b.emit(Activate(step, step, Activation.SOFTPLUS))
    length = b.width(b_part)
    decay, skip = b.tensors.vector(f"{prefix}a", inner, length), b.tensors.vector(f"{prefix}d", inner)
    out, state = b.buffer("mixed", inner), b.state(inner * length)
    b.emit(SelectiveScan(out, values, b_part, c_part, step, decay, skip, state))
    b.emit(GatedActivation(out, gate, out, Activation.SILU))
    return Mixed(out, f"{prefix}out")


def _step_and_keys(b: ProgramBuilder, prefix: str, x: str) -> tuple[str, ...]:
    """Emit what the steps are made of, and what writes and reads states: parts of one product."""
    length = b.keys.count("ssm.state_size")
    widths = {"dt": b.keys.count("ssm.time_step_rank"), "b": length, "c": length}
    whole = b.linear("step_and_keys", x, f"{prefix}x", sum(widths.values()))
    always, first, parts = b.keys.boolean("ssm.dt_b_c_rms", False), 0, []
    for kind, width in widths.items():
        part = b.copy_parts(f"scan_{kind}", whole, 1, width, width, first=first)
        norm = f"{prefix}{kind}_norm"
        if always or f"{norm}.weight" in b.tensors:
            b.norm(part, part, norm if f"{norm}.weight" in b.tensors else None)
        parts.append(part)
        first += width
    return tuple(parts)
