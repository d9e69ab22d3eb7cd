"""qwen3next: Qwen 3 Next, three of four layers with a gated delta rule, and experts."""

from rase_models.architectures import qwen35
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Experts
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build qwen3next."""
    shared = b.keys.count("expert_shared_feed_forward_length", b.sizes.feed_forward_lengths[0])
    return qwen35.build_with(b, Experts(shared_length=shared), by_key_head=True)
