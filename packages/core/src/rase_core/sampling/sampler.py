"""Chooses the next token of one sequence."""

from collections.abc import Sequence

from rase_core.decoder import Logits
from rase_core.sampling.config import GenerationConfig


class Sampler:
    """Chooses tokens of one sequence; not shared between sequences."""

    def __init__(self, config: GenerationConfig, choice: int = 0, prompt: Sequence[int] = ()) -> None:
        raise NotImplementedError

    def sample(self, logits: Logits, position: int) -> int:
        """Return the token for a position (the prompt's first token has position 0); logits are float32 [vocab]."""
        raise NotImplementedError

    def accept(self, token: int) -> None:
        """Count a token as part of the sequence."""
        raise NotImplementedError
