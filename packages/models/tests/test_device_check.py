"""Choosing a device, and checking that it computes."""

import numpy as np
import pytest
from rase_core.device import DevicePreference
from rase_core.errors import BackendUnavailable
from rase_models.backends.reference.runner import ReferenceRunner
from rase_models.device_check import choose_device, probe_devices


def test_a_named_device_is_chosen() -> None:
    assert choose_device("reference") == "reference"
    assert choose_device("cpu") == "cpu"


def test_auto_takes_the_cpu_where_nothing_faster_is_known() -> None:
    assert choose_device("auto") == "cpu"


@pytest.mark.parametrize("name", ["abacus", "metal"])
def test_a_device_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(BackendUnavailable, match=name):
        choose_device(name)


def test_the_reference_backend_passes_its_check() -> None:
    report = probe_devices("reference")
    assert report.device is DevicePreference.REFERENCE
    assert "matrix product checked" in str(report.attempts[-1].detail)


def test_auto_says_why_the_others_are_not_used() -> None:
    report = probe_devices("auto")
    assert [attempt.device.value for attempt in report.attempts] == ["cuda", "metal", "cpu"]
    assert report.attempts[0].reason == report.attempts[1].reason == "no backend of this kind is known"
    assert report.device is DevicePreference.CPU


def test_a_backend_that_computes_wrong_values_is_not_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceRunner, "run", lambda self, rows: np.zeros((2, 48), np.float32))
    report = probe_devices("reference")
    assert report.device is None
    assert "computes wrong values" in str(report.attempts[0].reason)


def test_an_unknown_device_cannot_be_probed() -> None:
    with pytest.raises(BackendUnavailable, match="abacus"):
        probe_devices("abacus")
