"""qwen35moe: Mixtures of Qwen 3.5, with gated delta rules and gated attention.

Every row also goes to one expert that it weighs.
"""

from rase_models.architectures import qwen35
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Experts
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build qwen35moe."""
    shared = b.keys.count("expert_shared_feed_forward_length", b.sizes.feed_forward_lengths[0])
    return qwen35.build_with(b, Experts(shared_length=shared))
