import pytest
from rase_core.device import DevicePreference, probe
from rase_core.errors import BackendFailure, BackendUnavailable

AUTO, CPU, CUDA, METAL = (DevicePreference(name) for name in ("auto", "cpu", "cuda", "metal"))


def absent() -> str:
    raise BackendUnavailable("cuda", "no driver", "install rase-models[cuda12]")


def broken() -> str:
    raise BackendFailure("wrong sum")


def test_a_device_is_parsed_whatever_its_case() -> None:
    assert DevicePreference.parse(" CUDA ") is CUDA
    assert DevicePreference.parse("auto") is AUTO


@pytest.mark.parametrize("text", ["", "tpu", "cpu:0", "ＣＰＵ"])
def test_an_unknown_device_is_an_error_with_the_known_ones(text: str) -> None:
    with pytest.raises(BackendUnavailable, match="no such device") as caught:
        DevicePreference.parse(text)
    assert caught.value.advice == "choose one of auto, cpu, cuda, metal, reference"


def test_auto_takes_the_first_usable_of_cuda_metal_and_cpu() -> None:
    report = probe(AUTO, {CPU: lambda: "8 cores", CUDA: absent, METAL: broken})
    assert report.device is CPU
    assert [(a.device, a.usable, a.reason, a.detail) for a in report.attempts] == [
        (CUDA, False, "no driver", "install rase-models[cuda12]"),
        (METAL, False, "wrong sum", None),
        (CPU, True, None, "8 cores"),
    ]


def test_auto_does_not_try_past_a_usable_device() -> None:
    report = probe(AUTO, {CPU: lambda: "8 cores", CUDA: lambda: "H100"})
    assert [attempt.device for attempt in report.attempts] == [CUDA]


def test_a_named_device_is_the_only_one_tried() -> None:
    report = probe(METAL, {CPU: lambda: "8 cores"})
    assert report.device is None
    assert [(a.device, a.reason) for a in report.attempts] == [
        (METAL, "this version of rase has no such backend")
    ]
