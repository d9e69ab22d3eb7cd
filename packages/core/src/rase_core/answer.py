"""One answer as it grows token by token, whatever computes the logits."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import index
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from rase_core.constraint import Allowed, Constraint
from rase_core.decoder import Logits, ModelLimits
from rase_core.errors import ContextOverflow, InvalidGenerationConfig, InvalidParameter
from rase_core.logprobs import AnswerLogprobs, Logprobs, PromptLogprobs, Spelling, TokenLogprobs
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


MOST_FORCED = 15
"""Tokens that are filled in at once: with the one before them two tiles of rows of the CPU's kernels."""

Detokenizer = Spelling
"""Turns the tokens of one answer into its bytes, one token after the other."""


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One generated token and the text that became certain with it.

    `text` holds whole characters that cannot belong to a stop string any more; it is empty while text is held
    back. The last event of a generation has no token when it only delivers what was held back. `logprobs`
    are those of the tokens whose text has begun to come out, where they were asked for.
    """

    token: int | None
    text: str
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished answer.

    `tokens` and `text` leave out the stop token; `text` is cut before the stop string `stop`, whose tokens
    stay in `tokens`. `cached_tokens` of the prompt were not computed again. Times are wall-clock seconds;
    those that a scheduler makes a running request wait count as decoding. `logprobs`, where they were asked
    for, are those of the tokens that have a part in the text, so not of a stop string's. `thought_tokens` are
    for whoever tells thoughts in the text apart, and counts theirs. `drafted_tokens` were guessed ahead, and
    of these `accepted_tokens` were the ones that were chosen. For one that is not `is_started` nothing was
    computed: it was to have no token, or was cancelled in line.
    """

    tokens: tuple[int, ...]
    text: str
    stop_reason: StopReason
    stop: str | None
    prompt_tokens: int
    prefill_seconds: float
    decode_seconds: float
    queued_seconds: float = 0.0
    cached_tokens: int = 0
    logprobs: tuple[TokenLogprobs, ...] | None = None
    prompt_logprobs: tuple[TokenLogprobs, ...] | None = None
    thought_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    is_started: bool = True


class Answer:
    """Chooses the tokens of one answer, turns them into text and knows when it ends.

    `prompt` is one that `checked_prompt` returned. `reason` is None while the answer goes on; it may have
    ended before its first token. Without a detokenizer there is no text. A `constraint` that leaves nothing
    but the end has the effect of an end token. With `prompt_logprobs` the answer does not end before
    `see_prompt` has had all of the prompt.

    Raises InvalidGenerationConfig for stop strings without a detokenizer and for token ids outside the
    vocabulary, InvalidParameter for an impossible choice and for log probabilities without a detokenizer.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        config: GenerationConfig,
        limits: ModelLimits,
        detokenizer: Detokenizer | None = None,
        choice: int = 0,
        constraint: Constraint | None = None,
        logprobs: Logprobs | None = None,
        prompt_logprobs: PromptLogprobs | None = None,
    ) -> None:
        _check_request(config, detokenizer, choice)
        config.check_tokens(limits.vocab_size)
        self._prompt_tokens, self._config, self._limits = len(prompt), config, limits
        self._sampler = Sampler(config, choice, prompt)
        self._stop_tokens = config.stop_tokens | (frozenset() if config.ignore_eos else limits.eos_tokens)
        self._detokenizer, self._characters = detokenizer, Utf8Assembler()
        self._constraint = constraint
        self._matcher = StopMatcher(config.stop)
        self._pieces: list[str] = []
        self._is_refused = False
        self._logprobs = _answer_logprobs(logprobs, detokenizer)
        self._prompt_logprobs = prompt_logprobs
        self.tokens: list[int] = []
        self.reason: StopReason | None = None if self.tells_prompt else self._end()

    @property
    def free_sampler(self) -> Sampler | None:
        """What chooses the next token by the logits alone; None where there are rules as well."""
        return self._sampler if self._constraint is None else None

    @property
    def takes_likeliest(self) -> bool:
        """Whether the next token is the one with the largest logit, the lowest id among equals."""
        return self._constraint is None and self._sampler.takes_likeliest

    @property
    def position(self) -> int:
        """How many tokens prompt and answer have: the position of the next one."""
        return self._prompt_tokens + len(self.tokens)

    @property
    def most_left(self) -> int:
        """How many tokens it may still get."""
        in_context = self._limits.context_length - self.position
        return min(self._config.max_tokens - len(self.tokens), in_context)

    @property
    def tells_prompt(self) -> bool:
        """Whether rows of the prompt are still to be seen."""
        return self._prompt_logprobs is not None and not self._prompt_logprobs.is_complete

    def see_prompt(self, position: int, logits: NDArray[np.float32]) -> None:
        """Take the rows after the prompt's tokens from a position on, float32 [rows, vocab]."""
        if self._prompt_logprobs is not None:
            self._prompt_logprobs.see(position, logits)
            self.reason = self.reason or (None if self.tells_prompt else self._end())

    def confine(self, limits: ModelLimits) -> None:
        """Go on with another decoder of the same model, whose context may be shorter and full already."""
        self._limits = limits
        if not self.tells_prompt or self._prompt_tokens > limits.context_length:
            self.reason = self.reason or self._full()

    def choose(self, logits: Logits) -> int:
        """Return the next token by logits float32 [vocab].

        Raises what Sampler.sample raises, and ConstraintFailure.
        """
        return self._sampler.sample(logits, self.position, self._allowed(logits.size))

    def add(self, token: int, logits: Logits | None = None) -> TokenEvent | None:
        """Append the token that was chosen and return the report of it; None for one that ends the answer.

        Log probabilities are told by `logits`, float32 [vocab], as the model gave them.
        """
        if token in self._stop_tokens:
            self.reason = StopReason.STOP_TOKEN
            return None
        self._sampler.accept(token)
        if self._constraint is not None:
            self._constraint.accept(token)
        self.tokens.append(token)
        event = TokenEvent(token, *self._text(token, logits))
        self._pieces.append(event.text)
        self.reason = StopReason.STOP_STRING if self._matcher.stop is not None else self._end()
        return event

    def forced(self) -> Sequence[int]:
        """Return the tokens that come next whatever their logits are, as far as nobody wants to see those."""
        if self._constraint is None or self.reason is not None or self._logprobs is not None:
            return ()
        can_be_forbidden = self._config.logit_bias or self._config.bad_words
        return () if can_be_forbidden else self._constraint.forced()[:MOST_FORCED]

    def cancel(self) -> None:
        """End the answer, unless it has ended."""
        self.reason = self.reason or StopReason.CANCELLED

    def refuse(self) -> None:
        """End the answer, unless it has ended, with the report made last: text held back is left out."""
        self._is_refused = True
        self.cancel()

    def flush(self) -> TokenEvent | None:
        """Return the report of what was held back when the answer ended; None when there is nothing."""
        held = self._matcher.flush()
        if self._is_refused:
            return None
        self._pieces.append(held)
        told = self._told(held, is_last=self._matcher.stop is None)
        return TokenEvent(None, held, told) if held or told else None

    def generation(
        self,
        *,
        prefill_seconds: float,
        decode_seconds: float,
        queued_seconds: float = 0.0,
        cached_tokens: int = 0,
        drafted_tokens: int = 0,
        accepted_tokens: int = 0,
        is_started: bool = True,
    ) -> Generation:
        """Return the answer as it is, ended for its reason or else CANCELLED."""
        return Generation(
            tokens=tuple(self.tokens),
            text="".join(self._pieces),
            stop_reason=self.reason or StopReason.CANCELLED,
            stop=self._matcher.stop,
            prompt_tokens=self._prompt_tokens,
            prefill_seconds=prefill_seconds,
            decode_seconds=decode_seconds,
            queued_seconds=queued_seconds,
            cached_tokens=cached_tokens,
            logprobs=None if self._logprobs is None else tuple(self._logprobs.told),
            prompt_logprobs=None if self._prompt_logprobs is None else tuple(self._prompt_logprobs.told),
            drafted_tokens=drafted_tokens,
            accepted_tokens=accepted_tokens,
            is_started=is_started,
        )

    def _allowed(self, vocab_size: int) -> Allowed | None:
        known = self._constraint.allowed() if self._constraint is not None else None
        if self._constraint is None or known is None:
            return None
        allowed = np.zeros(vocab_size, np.bool_)
        allowed[: known.size] = known[:vocab_size]
        if self._constraint.may_end:
            allowed[[token for token in self._stop_tokens if token < vocab_size]] = True
        return allowed

    def _end(self) -> StopReason | None:
        is_complete = self._constraint is not None and self._constraint.is_complete
        return StopReason.STOP_TOKEN if is_complete else self._full()

    def _full(self) -> StopReason | None:
        if len(self.tokens) >= self._config.max_tokens:
            return StopReason.MAX_TOKENS
        return StopReason.CONTEXT_FULL if self.position >= self._limits.context_length else None

    def _text(self, token: int, logits: Logits | None) -> tuple[str, tuple[TokenLogprobs, ...]]:
        """Return the text that is certain with one more token, and the log probabilities that go with it."""
        if self._detokenizer is None:
            return "", ()
        data = self._detokenizer.push(token)
        characters = self._characters.push(data)
        if self._logprobs is not None and logits is not None:
            self._logprobs.add(token, data, characters, logits)
        text = self._matcher.push(characters)
        return text, self._told(text)

    def _told(self, text: str, *, is_last: bool = False) -> tuple[TokenLogprobs, ...]:
        return () if self._logprobs is None else self._logprobs.come_out(text, is_last=is_last)


def checked_prompt(prompt: Sequence[int], limits: ModelLimits) -> list[int]:
    """Return the prompt as plain ints.

    Raises ContextOverflow when it is longer than the context, InvalidParameter when it is empty or has
    what is no token of the vocabulary, such as a truth value.
    """
    if not len(prompt):
        raise InvalidParameter("prompt", [], "at least one token")
    if len(prompt) > limits.context_length:
        raise ContextOverflow(len(prompt), limits.context_length)
    for token in prompt:
        if not _is_whole(token) or not 0 <= index(token) < limits.vocab_size:
            raise InvalidParameter("prompt", token, f"token ids of 0 to {limits.vocab_size - 1}")
    return [index(token) for token in prompt]


def _is_whole(value: object) -> bool:
    # The question to a protocol takes a microsecond, and a prompt has thousands of tokens.
    return type(value) is int or (isinstance(value, SupportsIndex) and not isinstance(value, bool | np.bool_))


def _answer_logprobs(asked: Logprobs | None, detokenizer: Detokenizer | None) -> AnswerLogprobs | None:
    if asked is None:
        return None
    if detokenizer is None:
        raise InvalidParameter("logprobs", asked, "none without a detokenizer")
    return AnswerLogprobs(asked.top, detokenizer)


def _check_request(config: GenerationConfig, detokenizer: Detokenizer | None, choice: int) -> None:
    if config.stop and detokenizer is None:
        raise InvalidGenerationConfig("stop", config.stop, "none without a detokenizer")
    if not 0 <= choice < 2**64:
        raise InvalidParameter("choice", choice, f"a whole number of 0 to {2**64 - 1}")
