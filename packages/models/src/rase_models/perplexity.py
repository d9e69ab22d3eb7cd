"""How well a model predicts a text.

The rules are those of llama.cpp's perplexity tool, so that results compare: the tokens are cut into windows
of equal length and what is left over is dropped; each window is read alone, with BOS in the place of its
first token where the tokenizer begins texts with one; only the second half of a window counts, so that every
prediction rests on at least half a window.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rase_core.decoder import Batch, BatchDecoder, Logits
from rase_core.errors import InvalidParameter

WINDOW_TOKENS = 512
_ROWS = 64
"""Rows of a forward pass: the logits of more would take hundreds of megabytes."""


@dataclass(frozen=True, slots=True)
class Perplexity:
    """A result, and how far a part of the text may mislead: one standard error of the mean."""

    value: float
    error: float
    predictions: int


def perplexity_by_window(
    decoder: BatchDecoder, tokens: Sequence[int], bos: int | None = None, window: int = WINDOW_TOKENS
) -> Iterator[tuple[int, int, Perplexity]]:
    """Give, after each window, its number from 1, the number of windows, and the result so far.

    `bos` takes the place of each window's first token; None leaves the text as it is.

    Raises:
        InvalidParameter: the text is shorter than two windows, or a window longer than the context.
    """
    if not 4 <= window <= decoder.context_length:
        raise InvalidParameter("window", window, f"4 to {decoder.context_length} tokens, the context")
    windows = len(tokens) // window
    if windows < 2:
        raise InvalidParameter("text", f"{len(tokens)} tokens", f"at least two windows, {2 * window} tokens")
    losses: list[NDArray[np.float64]] = []
    for index in range(windows):
        text = np.array(tokens[index * window : (index + 1) * window], np.int32)
        target = text.copy()
        if bos is not None:
            text[0] = bos
        losses.append(_losses(decoder, text, target))
        yield index + 1, windows, _result(np.concatenate(losses))


def _losses(decoder: BatchDecoder, text: NDArray[np.int32], target: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return -log of the probability of each token that counts, float64."""
    sequence, first = decoder.new_sequence(), len(text) // 2
    parts = []
    try:
        for start in range(0, len(text) - 1, _ROWS):
            end = min(start + _ROWS, len(text) - 1)
            wanted = np.arange(max(start, first), end, dtype=np.int32)
            logits = _append(decoder, sequence, start, text[start:end], wanted)
            parts.append(_negative_log_likelihoods(logits, target[wanted + 1]))
    finally:
        decoder.release(sequence)
    return np.concatenate(parts)


def _append(
    decoder: BatchDecoder,
    sequence: int,
    start: int,
    tokens: NDArray[np.int32],
    wanted: NDArray[np.int32],
) -> Logits:
    count = len(tokens)
    positions = np.arange(start, start + count, dtype=np.int32)
    return decoder.forward(
        Batch(np.full(count, sequence, np.int32), positions, tokens, wanted - np.int32(start))
    )


def _negative_log_likelihoods(logits: Logits, targets: NDArray[np.int32]) -> NDArray[np.float64]:
    shifted = logits - logits.max(axis=1, keepdims=True) if len(logits) else logits
    sums = np.exp(shifted).sum(axis=1, dtype=np.float64)
    chosen: NDArray[np.float64] = np.log(sums) - shifted[np.arange(len(targets)), targets]
    return chosen


def _result(losses: NDArray[np.float64]) -> Perplexity:
    value = math.exp(losses.mean())
    error = value * math.sqrt(float(losses.var()) / max(len(losses) - 1, 1))
    return Perplexity(value, error, len(losses))
