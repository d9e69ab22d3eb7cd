"""`rase runtime probe`"""

import json
import subprocess
from collections.abc import Callable

import pytest
from rase_cli.settings import DEVICES
from rase_core.device import DevicePreference

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_the_option_offers_the_devices_of_the_core() -> None:
    assert set(DEVICES) == {device.value for device in DevicePreference}


def test_each_tried_device_is_a_line_and_the_last_one_is_usable(rase: Run) -> None:
    done = rase("runtime", "probe")
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [result for _, result, _, _ in lines][-1] == "usable"
    assert all(reason for _, result, reason, _ in lines if result == "unusable")


@pytest.mark.parametrize("name", ["cpu:1", "abacus", "cuda:"])
def test_what_is_no_device_is_refused_with_those_there_are(rase: Run, name: str) -> None:
    done = rase("runtime", "probe", "--device", name)
    assert done.returncode == 2
    assert "cuda:1" in done.stderr and "reference" in done.stderr


def test_a_gpu_is_asked_for_by_its_number(rase: Run) -> None:
    done = rase("runtime", "probe", "--device", "cuda:9", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["requested"], report["attempts"][0]["device"]) == (5, "cuda:9", "cuda:9")
    assert report["attempts"][0]["reason"]


def test_json_tells_what_was_asked_and_what_is_used(rase: Run) -> None:
    report = json.loads(rase("runtime", "probe", "--device", "reference", "--json").stdout)
    assert (report["requested"], report["device"]) == ("reference", "reference")
    assert report["attempts"][0]["usable"]


def test_a_device_that_is_not_here_is_an_exit_code(rase: Run) -> None:
    for device in ("cuda", "metal"):
        done = rase("runtime", "probe", "--device", device)
        usable = done.stdout.startswith(f"{device}\tusable")
        assert done.returncode == (0 if usable else 5)
