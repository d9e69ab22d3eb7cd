"""What a request asks of a generation."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConfig:
    """How long to generate, how to choose each token, and when to stop."""

    max_tokens: int = 256
    temperature: float = 0.7
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_last_n: int = 64
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: frozenset[int] = frozenset()
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    bad_words: tuple[tuple[int, ...], ...] = ()
    seed: int = 0
    stop_tokens: frozenset[int] = frozenset()
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False

    def validate(self) -> None:
        """Check every field; raises InvalidGenerationConfig naming parameter, value and range."""

    @classmethod
    def from_mapping(
        cls, values: Mapping[str, object], base: "GenerationConfig | None" = None
    ) -> "GenerationConfig":
        """Return `base` (the defaults when None) with the named fields replaced, as a JSON or TOML table has them.

        Raises InvalidGenerationConfig for an unknown name or an invalid value.
        """
        raise NotImplementedError
