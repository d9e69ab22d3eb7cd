"""llama4: Llama 4, three of four layers of which turn and see chunks of 8192 positions.

The others see everything and know no positions; their queries grow with the position. The weight of the
chosen expert multiplies what goes into it; every row also goes to one that all share.
"""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts, HeadNorms, LayerPositions
from rase_models.architectures.positions import model_rope, same_positions, some_windowed
from rase_models.architectures.rope import growing
from rase_models.program import Program, RopePairing, Scoring

_CHUNK = 8192
_GROWTH = 0.1
_PERIOD = 4
_EXPERTS_OF_MAVERICK = 128
"""The one whose heads have no norms, which its file says nowhere else."""


def build(b: ProgramBuilder) -> Program:
    """Build llama4."""
    normed = b.sizes.expert_count != _EXPERTS_OF_MAVERICK
    return build_decoder(
        b,
        Differences(
            _positions(b),
            head_norms=HeadNorms.TURNED if normed else HeadNorms.AFTER_ROPE,
            experts=Experts(
                normalise=False,
                scoring=Scoring.SIGMOID,
                shared_length=b.sizes.expert_length,
                weighs_inputs=True,
            ),
        ),
    )


def _positions(b: ProgramBuilder) -> tuple[LayerPositions, ...]:
    if b.keys.states_none("attention.sliding_window"):
        return same_positions(b, RopePairing.ADJACENT)
    local = LayerPositions(model_rope(b, RopePairing.ADJACENT, window=True), _CHUNK, chunked=True)
    growth = growing(b.keys, b.sizes.key_length, _GROWTH, _CHUNK, first=1)
    return some_windowed(b, local, LayerPositions(None, query_rope=growth), period=_PERIOD)
