"""The loop that turns a prompt into an answer on any TokenDecoder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from rase_core.decoder import TokenDecoder
from rase_core.sampling import GenerationConfig


class StopReason(StrEnum):
    """Why a generation ended."""

    MAX_TOKENS = "max_tokens"
    STOP_TOKEN = "stop_token"
    STOP_STRING = "stop_string"
    CANCELLED = "cancelled"
    CONTEXT_FULL = "context_full"


class Detokenizer(Protocol):
    """Turns the tokens of one answer into its bytes, one token after the other."""

    def push(self, token: int) -> bytes:
        """Return the bytes that one more token adds; they may end within a character."""


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One generated token and the text that became certain with it.

    `text` holds whole characters that cannot belong to a stop string any more; it is empty while text is held
    back. The last event of a generation has no token when it only delivers what was held back.
    """

    token: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished answer.

    `tokens` and `text` leave out the stop token; `text` is cut before the stop string `stop`, whose tokens
    stay in `tokens`. Times are wall-clock seconds.
    """

    tokens: tuple[int, ...]
    text: str
    stop_reason: StopReason
    stop: str | None
    prompt_tokens: int
    prefill_seconds: float
    decode_seconds: float


def generate(
    decoder: TokenDecoder,
    prompt: Sequence[int],
    config: GenerationConfig,
    cancelled: Callable[[], bool] | None = None,
    *,
    detokenizer: Detokenizer | None = None,
    choice: int = 0,
) -> Generation:
    """Generate an answer to the end."""
    raise NotImplementedError


def generate_with(
    decoder: TokenDecoder,
    prompt: Sequence[int],
    config: GenerationConfig,
    cancelled: Callable[[], bool] | None = None,
    *,
    on_token: Callable[[TokenEvent], bool | None],
    detokenizer: Detokenizer | None = None,
    choice: int = 0,
) -> Generation:
    """Generate an answer and report each token as it comes."""
    raise NotImplementedError
