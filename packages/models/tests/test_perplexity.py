"""How well a model predicts a text."""

from pathlib import Path

import numpy as np
import pytest
from rase_core.errors import InvalidParameter
from rase_models.decoder import ProgramDecoder
from rase_models.loading import load_decoder
from rase_models.perplexity import perplexity_by_window

BOS = 7


@pytest.fixture(scope="module")
def decoder(tiny_path: Path) -> ProgramDecoder:
    return load_decoder(tiny_path, "reference")


def plain_losses(decoder: ProgramDecoder, text: list[int], bos: int | None) -> list[float]:
    """What the tokens of a text's second half cost, computed all at once."""
    logits = decoder.logits(text if bos is None else [bos, *text[1:]]).astype(np.float64)
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    half = len(text) // 2
    return [-np.log(chances[at, text[at + 1]]) for at in range(half, len(text) - 1)]


@pytest.mark.parametrize("bos", [None, BOS])
def test_the_second_half_of_every_window_counts(decoder: ProgramDecoder, bos: int | None) -> None:
    tokens = np.random.default_rng(1).integers(0, 256, 320).tolist()
    results = list(perplexity_by_window(decoder, tokens, bos, 100))
    assert [(done, windows) for done, windows, _ in results] == [(1, 3), (2, 3), (3, 3)]
    losses = [loss for at in (0, 100, 200) for loss in plain_losses(decoder, tokens[at : at + 100], bos)]
    last = results[-1][2]
    assert last.predictions == len(losses) == 3 * 49
    assert last.value == pytest.approx(np.exp(np.mean(losses)), rel=1e-5)
    assert last.error == pytest.approx(last.value * np.std(losses, ddof=1) / np.sqrt(len(losses)), rel=1e-4)


def test_nothing_stays_in_the_cache(decoder: ProgramDecoder) -> None:
    list(perplexity_by_window(decoder, [1] * 64, None, 16))
    assert decoder.kv_used == 0


def test_a_text_must_have_two_windows(decoder: ProgramDecoder) -> None:
    with pytest.raises(InvalidParameter, match=r"63 tokens.*two windows, 64"):
        list(perplexity_by_window(decoder, [1] * 63, None, 32))


@pytest.mark.parametrize("window", [3, 129])
def test_a_window_must_fit_into_the_context(decoder: ProgramDecoder, window: int) -> None:
    with pytest.raises(InvalidParameter, match="4 to 128 tokens"):
        list(perplexity_by_window(decoder, [1] * 1000, None, window))
