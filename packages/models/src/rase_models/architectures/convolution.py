"""The convolution before a scan over states: of all its inputs at once, activated, then taken apart."""

from collections.abc import Sequence

from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Activate, Activation, ShortConv


def convolve(
    b: ProgramBuilder, x: str, name: str, outs: Sequence[tuple[str, int]], *, biased: bool
) -> tuple[str, ...]:
    """Emit the convolution of x by NAME.weight and, if `biased`, NAME.bias, into buffers of these widths."""
    width, taps = b.width(x), b.keys.count("ssm.conv_kernel")
    weight = b.tensors.vector(f"{name}.weight", width, taps)
    bias = b.tensors.vector(f"{name}.bias", width) if biased else None
    out = b.buffer("convolved", width)
    b.emit(ShortConv(out, x, weight, bias, taps, b.state((taps - 1) * width)))
    b.emit(Activate(out, out, Activation.SILU))
    first, buffers = 0, []
    for part, part_width in outs:
        buffers.append(b.copy_parts(part, out, 1, part_width, part_width, first=first))
        first += part_width
    return tuple(buffers)
