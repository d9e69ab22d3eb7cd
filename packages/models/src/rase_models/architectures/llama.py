"""llama: Llama 2 and 3, Mistral, TinyLlama, SmolLM2; with experts Mixtral.

The converter permutes queries and keys, so neighbours turn together.
"""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build llama; Mistral's first version sees a window of positions."""
    window = b.keys.count("attention.sliding_window", 0) or None
    positions = same_positions(b, RopePairing.ADJACENT, window=window)
    return build_decoder(b, Differences(positions, feed_forward_scaled=True))
