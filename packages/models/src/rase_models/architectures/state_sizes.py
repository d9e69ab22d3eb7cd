"""The sizes of layers that carry a state along a sequence, read from metadata and checked."""

from dataclasses import dataclass

from rase_models.architectures.builder import ProgramBuilder


@dataclass(frozen=True, slots=True)
class StateSizes:
    """The sizes of a layer's states.

    Attributes:
        inner: the width of all heads together.
        length: of a head's state, beside the width of the head.
        groups: parts of what reads and writes states, each for several heads.
    """

    inner: int
    length: int
    heads: int
    groups: int


def read_state_sizes(b: ProgramBuilder) -> StateSizes:
    """Read the sizes, the same in all layers."""
    keys = b.keys
    sizes = StateSizes(
        inner=keys.count("ssm.inner_size"),
        length=keys.count("ssm.state_size"),
        heads=keys.count("ssm.time_step_rank"),
        groups=keys.count("ssm.group_count"),
    )
    if sizes.inner % sizes.heads:
        raise keys.error("ssm.time_step_rank", f"a divisor of {sizes.inner}", sizes.heads)
    if sizes.heads % sizes.groups:
        raise keys.error("ssm.group_count", f"a divisor of the {sizes.heads} heads", sizes.groups)
    return sizes
