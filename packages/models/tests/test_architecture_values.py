"""What whole models of every architecture compute: against an independent engine, and on the CPU."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.decoder import Batch
from rase_models.architectures import supported_architectures
from rase_models.loading import load_decoder
from rase_models.testing_sketches import VOCAB, sketch, write_gguf


@pytest.fixture
def goldens() -> ModuleType:
    """Return the script that made the recorded logits."""
    path = Path(__file__).with_name("make_architecture_goldens.py")
    spec = importlib.util.spec_from_file_location("make_architecture_goldens", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def nmse(got: NDArray[np.floating], want: NDArray[np.floating]) -> float:
    return float(np.square(got.astype(np.float64) - want).sum() / np.square(want.astype(np.float64)).sum())


def test_a_whole_model_computes_what_an_independent_engine_does() -> None:
    path = Path(__file__).with_name("data") / "llama-Q2_K.gguf"
    want = np.load(path.with_suffix(".npz"))
    assert nmse(load_decoder(path, "reference").logits(want["tokens"]), want["exact_logits"]) < 1e-8


@pytest.mark.parametrize("architecture", supported_architectures())
def test_the_cpu_computes_what_the_reference_does(tmp_path: Path, architecture: str) -> None:
    path = write_gguf(tmp_path / "model.gguf", architecture, *sketch(architecture, layers=4))
    tokens = np.random.default_rng(0).integers(0, VOCAB, 20)
    exact, fast = load_decoder(path, "reference"), load_decoder(path, "cpu", threads=2)
    want = exact.logits(tokens)
    try:
        got = fast.logits(tokens)
        assert nmse(got, want) < 1e-5
        np.testing.assert_array_equal(fast.prefill(tokens[:-1]), got[-2])
        np.testing.assert_array_equal(fast.decode(int(tokens[-1])), got[-1])
    finally:
        fast.close()
    assert np.abs(want[-1] - exact.logits(tokens[1:])[-1]).max() > 1e-3 * np.abs(want).max()


@pytest.mark.parametrize("architecture", supported_architectures())
def test_a_run_may_want_the_logits_of_some_rows_or_of_none(tmp_path: Path, architecture: str) -> None:
    decoder = load_decoder(
        write_gguf(tmp_path / "model.gguf", architecture, *sketch(architecture)), "reference"
    )
    rows = np.arange(6, dtype=np.int32)
    want = decoder.logits((rows + 1).tolist())
    for outputs in ([], [5], [1, 4]):
        sequences = np.full(6, decoder.new_sequence(), np.int32)
        got = decoder.forward(Batch(sequences, rows, rows + 1, np.array(outputs, np.int32)))
        np.testing.assert_allclose(got, want[outputs], rtol=1e-3, atol=1e-3)


def test_sketches_compute_what_an_independent_engine_does(goldens: ModuleType, tmp_path: Path) -> None:
    with np.load(goldens.DATA) as wanted:
        for name in wanted:
            decoder = load_decoder(goldens.write(tmp_path / f"{name}.gguf", name), "reference")
            assert nmse(decoder.logits(goldens.TOKENS)[-goldens.KEPT :], wanted[name]) < 1e-5, name


def test_every_architecture_computes_what_an_independent_engine_does(
    oracle_architectures: list[Path],
) -> None:
    assert oracle_architectures
    for path in oracle_architectures:
        want = np.load(path.with_suffix(".npz"))
        decoder = load_decoder(path, "reference")
        assert nmse(decoder.logits(want["tokens"]), want["logits"]) < 1e-7, path
        decoder.prefill(want["tokens"])
        for token, logits in zip(want["greedy"], want["greedy_logits"], strict=True):
            assert nmse(decoder.decode(int(token)), logits) < 1e-7, path
