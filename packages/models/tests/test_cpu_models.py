"""Whole models on the CPU, against values that other engines computed."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.errors import BackendFailure
from rase_models.decoder import ProgramDecoder
from rase_models.loading import load_decoder

DATA = Path(__file__).parent / "data"


def normalised_error(got: NDArray[np.float32], want: NDArray[np.float32]) -> float:
    difference = got.astype(np.float64) - want
    return float(np.square(difference).sum() / np.square(want.astype(np.float64)).sum())


def check_quantised(path: Path) -> None:
    """Require no more error than a quarter above what another engine's 8-bit activations make."""
    reference = np.load(path.with_suffix(".npz"))
    decoder = load_decoder(path, threads=2)
    try:
        got = decoder.logits(reference["tokens"].tolist())
    finally:
        decoder.close()
    limit = 1e-4 if path.stem.endswith("F16") else 1.25 * float(reference["llamacpp_nmse"])
    assert normalised_error(got, reference["exact_logits"]) <= limit


def test_a_quantised_model_is_as_exact_as_another_engine() -> None:
    check_quantised(DATA / "llama-Q2_K.gguf")


def test_all_quantised_models_are_as_exact_as_another_engine(oracle_path: Path) -> None:
    paths = sorted((oracle_path / "quants").glob("*.gguf"))
    assert paths
    for path in paths:
        check_quantised(path)


def test_every_architecture_computes_what_others_compute(oracle_architectures: list[Path]) -> None:
    assert oracle_architectures
    for path in oracle_architectures:
        check_architecture(path)


def check_architecture(path: Path) -> None:
    """Require the errors that float16 in the cache makes, and that a nearly equal choice of experts makes."""
    reference = np.load(path.with_suffix(".npz"))
    limit = 5e-4 if path.stem.endswith("moe") else 2e-5
    decoder = load_decoder(path, threads=2)
    try:
        tokens = reference["tokens"].tolist()
        assert normalised_error(decoder.logits(tokens), reference["logits"]) <= limit, path
        assert normalised_error(decoder.prefill(tokens), reference["logits"][-1]) <= limit, path
        for token, want in zip(reference["greedy"][:6], reference["greedy_logits"], strict=False):
            assert normalised_error(decoder.decode(int(token)), want) <= 4 * limit, path
    finally:
        decoder.close()


PROMPT = [504, 3575, 282, 4649, 314]  # "The capital of France is"


def greedy(decoder: ProgramDecoder, count: int) -> list[int]:
    logits, tokens = decoder.prefill(PROMPT), []
    for _ in range(count):
        tokens.append(int(logits.argmax()))
        logits = decoder.decode(tokens[-1])
    return tokens


def workers() -> int:
    return sum(thread.name.startswith("rase-cpu") for thread in threading.enumerate())


def test_a_real_model_knows_the_capital_of_france(smollm2_path: Path) -> None:
    before = workers()
    first, second = (load_decoder(smollm2_path, threads=threads) for threads in (2, 3))
    assert workers() == before + 3
    tokens = greedy(first, 20)
    assert tokens[0] == 7042  # " Paris"
    assert greedy(second, 20) == tokens
    first.close()
    with pytest.raises(BackendFailure, match="closed"):
        first.prefill(PROMPT)
    assert greedy(second, 20) == tokens
    second.close()
    assert workers() == before


def test_a_real_models_logits_are_near_those_of_float32(smollm2_path: Path) -> None:
    tokens = np.random.default_rng(3).integers(0, 49_000, 40).tolist()
    exact, fast = (load_decoder(smollm2_path, device=device, threads=2) for device in ("reference", "cpu"))
    try:
        assert normalised_error(fast.logits(tokens), exact.logits(tokens)) < 4e-3
    finally:
        exact.close()
        fast.close()


def test_other_threads_run_while_a_model_computes(smollm2_path: Path) -> None:
    decoder = load_decoder(smollm2_path, threads=1)
    stopped, count = threading.Event(), 0

    def count_up() -> None:
        nonlocal count
        while not stopped.is_set():
            count += 1
            time.sleep(0)

    counter = threading.Thread(target=count_up)
    counter.start()
    before = count
    decoder.prefill(PROMPT * 100)  # one call of compiled code
    during = count - before
    stopped.set()
    counter.join()
    decoder.close()
    assert during > 20
