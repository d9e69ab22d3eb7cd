"""The loop that turns a prompt into an answer on any TokenDecoder."""

from collections.abc import Callable, Sequence
from time import perf_counter

from rase_core.answer import Answer, Detokenizer, Generation, StopReason, TokenEvent, checked_prompt
from rase_core.constraint import Constraint
from rase_core.decoder import TokenDecoder
from rase_core.errors import InvalidParameter
from rase_core.logprobs import Logprobs
from rase_core.sampling import GenerationConfig

__all__ = ["Detokenizer", "Generation", "OnToken", "StopReason", "TokenEvent", "generate", "generate_with"]

OnToken = Callable[[TokenEvent], bool | None]


def generate(
    decoder: TokenDecoder,
    prompt: Sequence[int],
    config: GenerationConfig,
    cancelled: Callable[[], bool] | None = None,
    *,
    detokenizer: Detokenizer | None = None,
    choice: int = 0,
    constraint: Constraint | None = None,
    logprobs: Logprobs | None = None,
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
        constraint=constraint,
        logprobs=logprobs,
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
    constraint: Constraint | None = None,
    logprobs: Logprobs | None = None,
) -> Generation:
    """Generate an answer and report each token as it comes; a report answered with False ends the generation.

    `cancelled` is asked before the prefill and before every decode; a report that was answered with False is
    the last one, and what is held back then is in no report and not in the text. A prompt that fills the
    context leaves no room for an answer: that is an empty generation with CONTEXT_FULL. Without a detokenizer
    there is no text. A `constraint`, which is used up, holds the answer to its rules. `logprobs` are told
    of the answer, not of the prompt.

    Raises ContextOverflow when the prompt is longer than the context, InvalidParameter for an empty prompt or
    a token outside the vocabulary, InvalidGenerationConfig for stop strings without a detokenizer, and what
    sampler, constraint and decoder raise.
    """
    tokens = checked_prompt(prompt, decoder)
    if logprobs is not None and logprobs.of_prompt:
        raise InvalidParameter("logprobs", logprobs, "none of the prompt, which only a scheduler tells")
    answer = Answer(tokens, config, decoder, detokenizer, choice, constraint, logprobs)
    return _Run(decoder, answer, cancelled or (lambda: False), on_token).run(tokens)


class _Run:
    """One generation under way."""

    def __init__(
        self, decoder: TokenDecoder, answer: Answer, cancelled: Callable[[], bool], on_token: OnToken
    ) -> None:
        self._decoder, self._answer = decoder, answer
        self._cancelled, self._on_token = cancelled, on_token
        self._is_started, self._prefill_seconds = False, 0.0
        self._decode_started = perf_counter()

    def run(self, prompt: Sequence[int]) -> Generation:
        """Generate to the end."""
        self._check_cancelled()
        if self._answer.reason is None:
            self._prefill_and_decode(prompt)
        held = self._answer.flush()
        if held is not None:
            self._on_token(held)
        decode_seconds = perf_counter() - self._decode_started
        return self._answer.generation(
            prefill_seconds=self._prefill_seconds, decode_seconds=decode_seconds, is_started=self._is_started
        )

    def _prefill_and_decode(self, prompt: Sequence[int]) -> None:
        answer, started = self._answer, perf_counter()
        self._is_started = True
        logits = self._decoder.prefill(prompt)
        self._decode_started = perf_counter()
        self._prefill_seconds = self._decode_started - started
        while True:
            self._report(answer.add(answer.choose(logits), logits))
            self._check_cancelled()
            if answer.reason is not None:
                return
            logits = self._decoder.decode(answer.tokens[-1])

    def _check_cancelled(self) -> None:
        if self._answer.reason is None and self._cancelled():
            self._answer.cancel()

    def _report(self, event: TokenEvent | None) -> None:
        if event is not None and self._on_token(event) is False:
            self._answer.refuse()
