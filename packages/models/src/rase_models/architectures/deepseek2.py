"""deepseek2: DeepSeek 2 and 3, R1, Kimi K2, Mistral Large 3: attention over latents, experts in groups."""

import math
from dataclasses import replace

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions, Mixed
from rase_models.architectures.experts import read_experts
from rase_models.architectures.hyperparameters import MAX_POSITION
from rase_models.architectures.latent_attention import attend_latently, read_latent_sizes
from rase_models.architectures.positions import model_rope
from rase_models.architectures.rope import growing
from rase_models.program import Program, Rope, RopePairing, Scoring

_LAYERS_OF_FLASH, _VOCABULARY_OF_FLASH = (47, 48), 154_880


def build(b: ProgramBuilder) -> Program:
    """Build deepseek2; GLM 4.7 Flash is the one whose files may not say how its experts are scored."""
    is_flash = b.sizes.block_count in _LAYERS_OF_FLASH and b.vocab_size == _VOCABULARY_OF_FLASH
    return build_latent(b, Scoring.SIGMOID if is_flash else Scoring.SOFTMAX)


def build_latent(b: ProgramBuilder, default: Scoring) -> Program:
    """Build a decoder of attention over latents and experts, given how these are scored by default."""
    rope, magnitude = _rope(b)
    length = read_latent_sizes(b, 0, rope).key_length
    scale, growth = magnitude**2 / math.sqrt(length), _growth(b, length)

    def attend(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
        return attend_latently(b, differences, layer, x, scale, growth)

    positions = (LayerPositions(rope),) * b.sizes.block_count
    return build_decoder(b, Differences(positions, experts=read_experts(b, default)), attend)


def _growth(b: ProgramBuilder, length: int) -> Rope | None:
    """Read how queries grow beyond the context that a model was first trained for; None where they do not."""
    growth = b.keys.number("attention.temperature_scale", 0.0)
    if not growth:
        return None
    return growing(b.keys, length, growth, b.keys.count("attention.temperature_length", most=MAX_POSITION))


def _rope(b: ProgramBuilder) -> tuple[Rope, float]:
    """Read the positions, and what YaRN multiplies whole queries and keys by, not only their turned parts."""
    rope = model_rope(b, RopePairing.ADJACENT)
    multiplier = b.keys.number("rope.scaling.yarn_log_multiplier", 0.0)
    if not multiplier:
        return rope, 1.0
    attention_factor = b.keys.number("rope.scaling.attn_factor", 1.0)
    growth = 1 + multiplier * math.log(max(b.keys.number("rope.scaling.factor", 1.0), 1.0))
    return replace(rope, magnitude=attention_factor), attention_factor * growth
