"""From logits to a token: what a request asks for, and how the token is chosen."""

from rase_core.sampling.config import GenerationConfig
from rase_core.sampling.sampler import Sampler, likeliest

__all__ = ["GenerationConfig", "Sampler", "likeliest"]
