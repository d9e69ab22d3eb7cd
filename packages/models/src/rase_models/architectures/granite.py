"""granite: Granite 3 and 4, whose embedding, parts, scores and logits are scaled."""

from collections.abc import Sequence

from rase_models.architectures.attention import attend
from rase_models.architectures.block import Mix, build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts, LayerPositions
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build granite."""
    return build_scaled(b, logit_divisor=b.keys.number("logit_scale"))


def build_scaled(
    b: ProgramBuilder,
    *,
    embedding_scale: float = 1.0,
    residual_scale: float = 1.0,
    logit_divisor: float = 1.0,
    positions: Sequence[LayerPositions] = (),
    required: tuple[str, ...] = (),
    mix: Mix = attend,
) -> Program:
    """Build a llama with scales, given those that hold where the file has none."""
    return build_decoder(
        b,
        Differences(
            positions or _positions(b),
            embedding_scale=b.keys.number("embedding_scale", embedding_scale),
            residual_scale=b.keys.number("residual_scale", residual_scale),
            logit_scale=1 / b.keys.number("logit_scale", logit_divisor),
            required=required,
            experts=Experts(shared_length=b.keys.count("expert_shared_feed_forward_length", 0)),
        ),
        mix,
    )


def _positions(b: ProgramBuilder) -> tuple[LayerPositions, ...]:
    """Read the positions; this is the key by which a file says that there are none."""
    if not b.keys.boolean("rope.scaling.finetuned", True):
        return (LayerPositions(None),) * b.sizes.block_count
    return same_positions(b, RopePairing.ADJACENT)
