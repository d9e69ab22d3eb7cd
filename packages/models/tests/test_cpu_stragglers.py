"""A thread that lost its core in one run must not disturb the next."""

import os
from pathlib import Path

import numpy as np
from rase_models.loading import load_decoder

REPETITIONS = 40


def test_a_prompt_after_decoding_is_right_with_more_threads_than_cores(smollm2_path: Path) -> None:
    decoder = load_decoder(smollm2_path, threads=2 * (os.cpu_count() or 1) + 1)
    prompt = np.random.default_rng(0).integers(0, decoder.vocab_size, 24).tolist()
    try:
        expected = decoder.prefill(prompt).copy()
        for _ in range(REPETITIONS):
            decoder.decode(prompt[0])
            assert np.array_equal(decoder.prefill(prompt), expected)
    finally:
        decoder.close()
