"""The loop that turns a prompt into an answer on any TokenDecoder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import index
from time import perf_counter
from typing import Protocol, SupportsIndex

from rase_core.decoder import Logits, TokenDecoder
from rase_core.errors import ContextOverflow, InvalidGenerationConfig
from rase_core.sampling import GenerationConfig, Sampler
from rase_core.stopping import StopMatcher
from rase_core.text import Utf8Assembler


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


OnToken = Callable[[TokenEvent], bool | None]


def generate(
    decoder: TokenDecoder,
    prompt: Sequence[int],
    config: GenerationConfig,
    cancelled: Callable[[], bool] | None = None,
    *,
    detokenizer: Detokenizer | None = None,
    choice: int = 0,
) -> Generation:
    """Generate an answer to the end, as generate_with without its reports."""
    return generate_with(
        decoder,
        prompt,
        config,
        cancelled,
        on_token=lambda event: None,
        detokenizer=detokenizer,
        choice=choice,
    )


def generate_with(
    decoder: TokenDecoder,
    prompt: Sequence[int],
    config: GenerationConfig,
    cancelled: Callable[[], bool] | None = None,
    *,
    on_token: OnToken,
    detokenizer: Detokenizer | None = None,
    choice: int = 0,
) -> Generation:
    """Generate an answer and report each token as it comes; a report answered with False ends the generation.

    `cancelled` is asked before the prefill and before every decode; a report that was answered with False is
    the last one, and what is held back then is in no report and not in the text. A prompt that fills the
    context leaves no room for an answer: that is an empty generation with CONTEXT_FULL. Without a detokenizer
    there is no text.

    Raises ContextOverflow when the prompt is longer than the context, InvalidGenerationConfig for an empty
    prompt, a token outside the vocabulary, or stop strings without a detokenizer, and what sampler and
    decoder raise.
    """
    tokens = _checked_prompt(decoder, prompt)
    _check_request(config, detokenizer, choice)
    return _Run(decoder, tokens, config, cancelled, on_token, detokenizer, choice).run()


def _checked_prompt(decoder: TokenDecoder, prompt: Sequence[int]) -> list[int]:
    if not len(prompt):
        raise InvalidGenerationConfig("prompt", [], "at least one token")
    if len(prompt) > decoder.context_length:
        raise ContextOverflow(len(prompt), decoder.context_length)
    for token in prompt:
        if not isinstance(token, SupportsIndex) or not 0 <= index(token) < decoder.vocab_size:
            raise InvalidGenerationConfig("prompt", token, f"token ids of 0 to {decoder.vocab_size - 1}")
    return [index(token) for token in prompt]


def _check_request(config: GenerationConfig, detokenizer: Detokenizer | None, choice: int) -> None:
    if config.stop and detokenizer is None:
        raise InvalidGenerationConfig("stop", config.stop, "none without a detokenizer")
    if not 0 <= choice < 2**64:
        raise InvalidGenerationConfig("choice", choice, f"a whole number of 0 to {2**64 - 1}")


class _Run:
    """One generation under way."""

    def __init__(
        self,
        decoder: TokenDecoder,
        prompt: Sequence[int],
        config: GenerationConfig,
        cancelled: Callable[[], bool] | None,
        on_token: OnToken,
        detokenizer: Detokenizer | None,
        choice: int,
    ) -> None:
        self._decoder, self._prompt, self._config = decoder, prompt, config
        self._cancelled = cancelled or (lambda: False)
        self._on_token, self._detokenizer = on_token, detokenizer
        self._sampler = Sampler(config, choice, prompt)
        self._stop_tokens = config.stop_tokens | (frozenset() if config.ignore_eos else decoder.eos_tokens)
        self._characters, self._matcher = Utf8Assembler(), StopMatcher(config.stop)
        self._tokens: list[int] = []
        self._pieces: list[str] = []
        self._is_refused = False
        self._prefill_seconds = 0.0
        self._decode_started = perf_counter()

    def run(self) -> Generation:
        """Generate to the end."""
        reason = self._full() or self._prefill_and_decode()
        self._flush()
        return Generation(
            tokens=tuple(self._tokens),
            text="".join(self._pieces),
            stop_reason=reason,
            stop=self._matcher.stop,
            prompt_tokens=len(self._prompt),
            prefill_seconds=self._prefill_seconds,
            decode_seconds=perf_counter() - self._decode_started,
        )

    def _prefill_and_decode(self) -> StopReason:
        if self._cancelled():
            return StopReason.CANCELLED
        started = perf_counter()
        logits = self._decoder.prefill(self._prompt)
        self._decode_started = perf_counter()
        self._prefill_seconds = self._decode_started - started
        while (reason := self._step(logits)) is None:
            logits = self._decoder.decode(self._tokens[-1])
        return reason

    def _step(self, logits: Logits) -> StopReason | None:
        token = self._sampler.sample(logits, self._position)
        if token in self._stop_tokens:
            return StopReason.STOP_TOKEN
        self._sampler.accept(token)
        self._tokens.append(token)
        self._report(token, self._text(token))
        return self._reason_to_stop()

    def _reason_to_stop(self) -> StopReason | None:
        if self._is_refused:
            return StopReason.CANCELLED
        if self._matcher.stop is not None:
            return StopReason.STOP_STRING
        return self._full() or (StopReason.CANCELLED if self._cancelled() else None)

    def _full(self) -> StopReason | None:
        if len(self._tokens) >= self._config.max_tokens:
            return StopReason.MAX_TOKENS
        return StopReason.CONTEXT_FULL if self._position >= self._decoder.context_length else None

    @property
    def _position(self) -> int:
        return len(self._prompt) + len(self._tokens)

    def _text(self, token: int) -> str:
        if self._detokenizer is None:
            return ""
        return self._matcher.push(self._characters.push(self._detokenizer.push(token)))

    def _report(self, token: int | None, text: str) -> None:
        self._pieces.append(text)
        self._is_refused = self._on_token(TokenEvent(token, text)) is False

    def _flush(self) -> None:
        held = self._matcher.flush()
        if held and not self._is_refused:
            self._report(None, held)
