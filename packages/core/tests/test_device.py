import pytest
from rase_core.device import DevicePreference, device_number, probe
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
    assert str(caught.value.advice).startswith("choose one of auto, cpu, cuda, metal, reference, or ")


@pytest.mark.parametrize(("text", "number"), [("cuda:1", 1), (" CUDA:12", 12), ("cuda", None), ("cpu", None)])
def test_one_of_several_gpus_has_a_number(text: str, number: int | None) -> None:
    assert device_number(text) == number


@pytest.mark.parametrize("number", ["", "-1", "x", "²", "1:2", "9" * 5000])
def test_what_is_no_number_of_a_gpu_is_no_device(number: str) -> None:
    with pytest.raises(BackendUnavailable, match="no such device"):
        device_number(f"cuda:{number}")


def test_a_gpu_that_is_asked_for_by_its_number_answers_by_it() -> None:
    report = probe(CUDA, {CUDA: lambda: "H100"}, number=1)
    assert (report.requested, report.attempts[0].name) == ("cuda:1", "cuda:1")


def test_a_library_that_is_not_there_is_told_from_a_device_that_is_not() -> None:
    def bare() -> str:
        raise BackendUnavailable("cuda", "no module", is_installed=False)

    installed = [probe(CUDA, {CUDA: prober}).attempts[0].installed for prober in (bare, absent)]
    assert installed == [False, True]


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
