"""How fast a model computes: forward passes only, no sampling and no text."""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rase_cli.process import peak_memory_mb, process_age

if TYPE_CHECKING:
    from rase_models.decoder import ProgramDecoder

FIRST_PROMPT_TOKENS = 16
"""Length of the prompt of `first_token_s`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One round: with `depth` tokens in the cache, prefill `prompt_tokens` and decode `generated_tokens`.

    So many of several `sequences` are decoded together, a token of each in every step; the prompt is the same
    for all of them, and computed once.
    """

    prompt_tokens: int
    generated_tokens: int
    depth: int = 0
    repeats: int = 3
    sequences: int = 1

    @property
    def context_length(self) -> int:
        """The tokens that a round, or the first prompt, has in the cache at its end."""
        return max(self.depth + self.prompt_tokens + self.generated_tokens, FIRST_PROMPT_TOKENS)


@dataclass(frozen=True, slots=True)
class Speeds:
    """What was measured.

    `prefill_tok_s` and `decode_tok_s`, the latter of all sequences together, are medians over the rounds,
    None where no tokens were asked for; `load_s` is the time to load the model, the imports for it included;
    `first_token_s` the time from the start of the process to the logits after a first prompt of 16 tokens;
    `peak_rss_mb` is None where the system does not say, and so is `threads` where nobody chose it.
    """

    prefill_tok_s: float | None
    decode_tok_s: float | None
    load_s: float
    first_token_s: float
    peak_rss_mb: float | None
    threads: int | None


def measure(load: "Callable[[], ProgramDecoder]", work: Workload) -> Speeds:
    """Load a model, run a round to warm up and time `work.repeats` more, which alone stay counted."""
    from rase_models.backends.run_counters import RUN_COUNTERS

    started = time.perf_counter()
    decoder = load()
    load_seconds = time.perf_counter() - started
    tokens = _random_tokens(max(work.depth + work.prompt_tokens, FIRST_PROMPT_TOKENS), decoder.vocab_size)
    _round(decoder, tokens, Workload(FIRST_PROMPT_TOKENS, 0))
    first_token_seconds = process_age()
    _round(decoder, tokens, work)
    RUN_COUNTERS.snapshot(reset=True)
    rounds = [_round(decoder, tokens, work) for _ in range(work.repeats)]
    return Speeds(
        prefill_tok_s=_rate(work.prompt_tokens, [prefill for prefill, _ in rounds]),
        decode_tok_s=_rate(work.sequences * work.generated_tokens, [decode for _, decode in rounds]),
        load_s=round(load_seconds, 3),
        first_token_s=round(first_token_seconds, 3),
        peak_rss_mb=peak_memory_mb(),
        threads=decoder.threads,
    )


def _random_tokens(count: int, vocab_size: int) -> list[int]:
    """Return tokens spread over the vocabulary, the same every time."""
    return random.Random(0).choices(range(min(100, vocab_size - 1), min(vocab_size, 30000)), k=count)


def _round(decoder: "ProgramDecoder", tokens: list[int], work: Workload) -> tuple[float, float]:
    """Return the seconds of the prefill, with the logits of its last token, and of the decoding."""
    start, end = work.depth, work.depth + work.prompt_tokens
    sequences = [decoder.new_sequence()]
    try:
        _append(decoder, sequences, 0, tokens[:start])
        before = time.perf_counter()
        _append(decoder, sequences, start, tokens[start:end])
        between = time.perf_counter()
        sequences += [decoder.fork(sequences[0], end) for _ in range(work.sequences - 1)]
        began = time.perf_counter()
        for step in range(work.generated_tokens):
            _append(decoder, sequences, end + step, [tokens[step % len(tokens)]])
        return between - before, time.perf_counter() - began
    finally:
        for sequence in sequences:
            decoder.release(sequence)


def _append(
    decoder: "ProgramDecoder", sequences: Sequence[int], position: int, tokens: Sequence[int]
) -> None:
    """Append the same tokens to sequences of this length and compute the logits of each one's last token."""
    import numpy as np
    from rase_core.decoder import Batch

    count, copies = len(tokens), len(sequences)
    if count == 0:
        return
    positions = range(position, position + count)
    decoder.forward(
        Batch(
            sequences=np.array([sequence for sequence in sequences for _ in positions], np.int32),
            positions=np.array([*positions] * copies, np.int32),
            tokens=np.array([*tokens] * copies, np.int32),
            outputs=np.array(range(count - 1, count * copies, count), np.int32),
        )
    )


def _rate(tokens: int, seconds: Sequence[float]) -> float | None:
    return round(tokens / statistics.median(seconds), 2) if tokens else None
