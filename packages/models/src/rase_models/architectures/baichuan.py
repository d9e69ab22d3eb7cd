"""baichuan: Baichuan 1 and 2; the 7B turns as llama, the scores of the 13B fall with distance (ALiBi)."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing

_LAYERS_OF_13B = 40
_ALIBI = 8.0


def build(b: ProgramBuilder) -> Program:
    """Build baichuan; a file says nowhere else than in its number of layers how positions count."""
    if b.sizes.block_count == _LAYERS_OF_13B:
        positions = (LayerPositions(None),) * b.sizes.block_count
        return build_decoder(b, Differences(positions, alibi=_ALIBI))
    return build_decoder(b, Differences(same_positions(b, RopePairing.ADJACENT)))
