"""From logits to a token: what a request asks for, and how the token is chosen."""

from rase_core.sampling.chooser import OPEN, Chooser
from rase_core.sampling.config import GenerationConfig
from rase_core.sampling.ranking import NumpyRanker
from rase_core.sampling.sampler import Sampler

__all__ = ["OPEN", "Chooser", "GenerationConfig", "NumpyRanker", "Sampler"]
