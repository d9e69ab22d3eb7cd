"""The CUDA backend on a GPU, by the tests of its kernels; `pytest -m gpu`."""

from pathlib import Path

import numpy as np
import pytest
from rase_core.errors import BackendUnavailable
from rase_models import load_decoder
from rase_models.backends import load_backend
from rase_models.backends.cuda.faults import unavailable
from rase_models.device_check import check_backend
from rase_models.testing_sketches import TENSORS, sketch, write_gguf

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]


@pytest.mark.parametrize("status", [35, 100, 101, 999, 12345])
def test_a_gpu_that_cannot_be_used_has_a_reason_and_a_remedy(status: int) -> None:
    error = unavailable(status, "cudaErrorWords")
    assert isinstance(error, BackendUnavailable)
    assert "cudaErrorWords" in error.reason and error.advice


@pytest.mark.gpu
def test_the_gpu_passes_its_check() -> None:
    assert "matrix product checked" in check_backend(load_backend("cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("architecture", sorted({"llama", *TENSORS}))
def test_every_architecture_has_the_logits_of_the_reference(architecture: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", architecture, *sketch(architecture))
    wanted = np.asarray(load_decoder(path, device="reference").logits(TOKENS))
    decoder = load_decoder(path, device="cuda")
    found = [np.asarray(decoder.logits(TOKENS)), *(np.asarray(decoder.prefill(TOKENS[:4])) for _ in range(2))]
    decoder.close()
    np.testing.assert_allclose(found[0], wanted, atol=0.05 * np.abs(wanted).max())
    np.testing.assert_array_equal(found[1], found[2])


@pytest.mark.gpu
def test_a_gpu_that_is_not_there_is_refused_by_its_number() -> None:
    with pytest.raises(BackendUnavailable, match="cuda:99"):
        load_backend("cuda:99")
