"""cogvlm: The text of CogVLM, for which it has matrices of its own; those for images do not count."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.rope import plain_rope
from rase_models.program import Program, RopePairing

_BASE = 10_000.0
_OF_IMAGES = ("attn_qkv", "attn_output", "gate", "up", "down")


def build(b: ProgramBuilder) -> Program:
    """Build cogvlm; all of a head turns, whatever a file says."""
    for layer in range(b.sizes.block_count):
        for name in _OF_IMAGES:
            b.tensors.ignore(f"blk.{layer}.vis_{name}.weight")
    rope = plain_rope(RopePairing.HALVES, b.sizes.key_length, _BASE)
    return build_decoder(b, Differences((LayerPositions(rope),) * b.sizes.block_count))
