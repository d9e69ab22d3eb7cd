"""gptneox: Pythia, Dolly and GPT-NeoX; the parts of most work side by side, each on a norm of its own."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward, Norms
from rase_models.architectures.positions import same_positions
from rase_models.program import Activation, Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build gptneox."""
    parallel = b.keys.boolean("use_parallel_residual", False)
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            norm=Norm.LAYER,
            attention_norms=Norms("ffn_norm" if parallel else "attn_norm", None),
            own_attention_norm="attn_norm",
            parallel=parallel,
            feed_forward=FeedForward.PLAIN,
            activation=Activation.GELU_TANH,
        ),
    )
