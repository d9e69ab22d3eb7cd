"""The CUDA backend on a GPU, by the tests of its kernels; `pytest -m gpu`."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from rase_core.errors import BackendFailure, BackendUnavailable, DeviceLost, DeviceOutOfMemory
from rase_models import load_decoder
from rase_models.backends import load_backend
from rase_models.backends.cuda.faults import (
    check_capability,
    check_ordinal,
    cublas_failure,
    failure,
    unavailable,
)
from rase_models.device_check import check_backend
from rase_models.testing_sketches import TENSORS, sketch, write_gguf

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]


@pytest.mark.parametrize("status", [35, 100, 101, 999, 12345])
def test_a_gpu_that_cannot_be_used_has_a_reason_and_a_remedy(status: int) -> None:
    error = unavailable(status, "cudaErrorWords")
    assert isinstance(error, BackendUnavailable)
    assert "cudaErrorWords" in error.reason and error.advice


@pytest.mark.parametrize(
    ("ordinal", "count", "said"),
    [
        (1, 1, "1 GPU, the only one is cuda:0"),
        (7, 2, "2 GPUs, they are cuda:0 to cuda:1"),
        (0, 0, "no NVIDIA GPU"),
    ],
)
def test_a_number_that_no_gpu_has_is_refused_with_those_there_are(
    ordinal: int, count: int, said: str
) -> None:
    with pytest.raises(BackendUnavailable, match=f"cuda:{ordinal} .*{said}") as caught:
        check_ordinal(ordinal, count)
    assert caught.value.advice
    check_ordinal(count, count + 1)


def test_a_gpu_that_is_too_old_is_refused_with_what_is_needed() -> None:
    with pytest.raises(BackendUnavailable, match=r"capability is 7\.0, 7\.5 is needed"):
        check_capability(70, 75)
    check_capability(75, 75)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (2, DeviceOutOfMemory),
        (719, DeviceLost),
        (700, DeviceLost),
        (214, DeviceLost),
        (226, DeviceLost),
        (716, DeviceLost),
        (720, BackendFailure),
        (1, BackendFailure),
        (209, BackendFailure),
    ],
)
def test_an_error_while_computing_says_whether_the_device_can_go_on(
    status: int, kind: type[BackendFailure]
) -> None:
    error = failure(status, "cudaErrorWords")
    assert type(error) is kind
    assert "cudaErrorWords" in error.message and error.advice


@pytest.mark.parametrize(
    ("status", "kind"), [(3, DeviceOutOfMemory), (13, DeviceLost), (14, DeviceLost), (7, BackendFailure)]
)
def test_an_error_of_cublas_says_so_too(status: int, kind: type[BackendFailure]) -> None:
    assert type(cublas_failure(status, "CUBLAS_STATUS_WORDS")) is kind


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


@pytest.mark.gpu
def test_a_thread_computes_what_another_has_loaded(tmp_path: Path) -> None:
    decoder = load_decoder(write_gguf(tmp_path / "model.gguf", "llama", *sketch("llama")), device="cuda")
    wanted = np.asarray(decoder.logits(TOKENS)), np.asarray(decoder.prefill(TOKENS[:4]))
    with ThreadPoolExecutor(1) as pool:
        found = (
            pool.submit(decoder.logits, TOKENS).result(),
            pool.submit(decoder.prefill, TOKENS[:4]).result(),
        )
    decoder.close()
    for other, own in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(other), own)


@pytest.mark.gpu
def test_another_gpu_computes_the_same_and_does_not_become_current(tmp_path: Path) -> None:
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one GPU")
    path = write_gguf(tmp_path / "model.gguf", "llama", *sketch("llama"))
    found = []
    for device in ("cuda:0", "cuda:1"):
        decoder = load_decoder(path, device=device)
        assert cupy.cuda.runtime.getDevice() == 0
        found.append(np.asarray(decoder.logits(TOKENS)))
        decoder.close()
    np.testing.assert_allclose(found[0], found[1], atol=0.05 * np.abs(found[0]).max())
