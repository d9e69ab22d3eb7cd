"""Where the time of runs goes, counted when asked for."""

from pathlib import Path

import numpy as np
import pytest
from rase_core.decoder import Batch
from rase_models.backends.run_counters import COUNTERS, RUN_COUNTERS
from rase_models.loading import load_decoder


def test_runs_are_counted_by_kind_when_asked_for(monkeypatch: pytest.MonkeyPatch, tiny_path: Path) -> None:
    monkeypatch.setenv("RASE_PROFILE", "1")
    RUN_COUNTERS.snapshot(reset=True)
    decoder = load_decoder(tiny_path, threads=2)
    decoder.prefill(list(range(20)))
    for token in range(5):
        decoder.decode(token)
    decoder.close()
    counts = RUN_COUNTERS.snapshot(reset=True)
    assert (counts["prefill_calls"], counts["prefill_tokens"], counts["decode_steps"]) == (1, 20, 5)
    assert 0 < counts["gemm_matmul_ns"] + counts["attn_blocked_ns"] < counts["prefill_forward_ns"]
    assert 0 < counts["decode_matvec_ns"] + counts["decode_attn_ns"] < counts["decode_forward_ns"]
    assert RUN_COUNTERS.snapshot() == dict.fromkeys(COUNTERS, 0)


def test_a_row_that_is_decoded_beside_a_prompt_is_not_a_token_of_it(
    monkeypatch: pytest.MonkeyPatch, tiny_path: Path
) -> None:
    monkeypatch.setenv("RASE_PROFILE", "1")
    decoder = load_decoder(tiny_path, threads=1)
    sequences = np.repeat(np.array([decoder.new_sequence(), decoder.new_sequence()], np.int32), [1, 20])
    positions = np.array([0, *range(20)], np.int32)
    RUN_COUNTERS.snapshot(reset=True)
    decoder.forward(Batch(sequences, positions, positions, np.array([0, 20], np.int32)))
    decoder.close()
    counts = RUN_COUNTERS.snapshot(reset=True)
    assert (counts["prefill_calls"], counts["prefill_tokens"], counts["decode_steps"]) == (1, 20, 0)


def test_a_token_with_guesses_after_it_is_decoded(monkeypatch: pytest.MonkeyPatch, tiny_path: Path) -> None:
    monkeypatch.setenv("RASE_PROFILE", "1")
    decoder = load_decoder(tiny_path, threads=1)
    rows = np.arange(decoder.cheap_rows, dtype=np.int32)
    RUN_COUNTERS.snapshot(reset=True)
    decoder.forward(Batch(np.full(len(rows), decoder.new_sequence(), np.int32), rows, rows, rows))
    decoder.close()
    counts = RUN_COUNTERS.snapshot(reset=True)
    assert (counts["prefill_calls"], counts["prefill_tokens"], counts["decode_steps"]) == (0, 0, 1)


def test_runs_are_not_counted_otherwise(monkeypatch: pytest.MonkeyPatch, tiny_path: Path) -> None:
    monkeypatch.delenv("RASE_PROFILE", raising=False)
    RUN_COUNTERS.snapshot(reset=True)
    decoder = load_decoder(tiny_path, threads=1)
    decoder.prefill([1, 2, 3])
    decoder.close()
    assert set(RUN_COUNTERS.snapshot().values()) == {0}
