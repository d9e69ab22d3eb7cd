"""What a step of a model costs."""

from pathlib import Path

import pytest
from rase_models.gguf import open_gguf
from rase_models.step_work import step_work
from rase_models.testing import FEED_FORWARD, HEADS, KV_HEADS, VOCABULARY, WIDTH


def test_all_weights_but_the_embedding_are_read(tiny_path: Path) -> None:
    kv_width = WIDTH // HEADS * KV_HEADS
    block = 2 * WIDTH + 2 * WIDTH * WIDTH + 2 * WIDTH * kv_width + 3 * WIDTH * FEED_FORWARD
    weights = 2 * block + WIDTH + WIDTH * len(VOCABULARY)
    work = step_work(open_gguf(tiny_path))
    assert work.multiply_adds == weights
    last_keys_and_values = WIDTH + WIDTH * WIDTH + 2 * WIDTH * kv_width
    assert work.prompt_multiply_adds == block + last_keys_and_values
    assert work.weight_nbytes == 4 * weights


def test_a_tied_embedding_is_read_for_the_logits(smollm2_path: Path) -> None:
    work = step_work(open_gguf(smollm2_path))
    assert work.multiply_adds == pytest.approx(134.5e6, rel=0.001)
    assert work.weight_nbytes < smollm2_path.stat().st_size
