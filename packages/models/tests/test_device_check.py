"""Choosing a device, and checking that it computes."""

import errno
import logging
import os
import subprocess
import sys
from importlib.metadata import requires
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from packaging.markers import Marker
from packaging.requirements import Requirement
from rase_core.device import DevicePreference
from rase_core.errors import BackendFailure, BackendUnavailable
from rase_models.backends import BACKENDS, BackendPlace, load_backend
from rase_models.backends.base import Rows
from rase_models.backends.cpu.instruction_set import instruction_set
from rase_models.backends.extras import System, install_command, needs
from rase_models.backends.reference import ReferenceBackend
from rase_models.backends.reference.runner import ReferenceRunner
from rase_models.device_check import accelerator, check_backend, choose_among, choose_device, probe_devices
from rase_models.program import Program

CUDA, METAL, CPU = DevicePreference.CUDA, DevicePreference.METAL, DevicePreference.CPU
REFERENCE = BACKENDS["reference"]
CUDA_COMMAND = "pip install 'rase-models[cuda12]' or pip install 'rase-models[cuda13]'"
SYSTEMS = [
    System(*system)
    for system in (
        ("darwin", "arm64"),
        ("darwin", "x86_64"),
        ("linux", "x86_64"),
        ("linux", "aarch64"),
        ("win32", "AMD64"),
    )
]


class WrongRunner(ReferenceRunner):
    """Computes nothing but zeros."""

    def run(self, rows: Rows) -> NDArray[np.float32]:
        return np.zeros((len(rows.outputs), 48), np.float32)


class WrongBackend(ReferenceBackend):
    def load(self, program: Program, *_: object, **__: object) -> ReferenceRunner:
        return WrongRunner(program, {})


class BrokenBackend(ReferenceBackend):
    """Its library is there and cannot be loaded."""

    fault: Exception = ImportError("libfancy.so: undefined symbol")

    def load(self, *_: object, **__: object) -> ReferenceRunner:
        raise self.fault


class LoaderFaultBackend(BrokenBackend):
    fault = OSError("Could not find/load shared object file 'libfancy.so'")


class NumberedBackend(ReferenceBackend):
    """One of several devices, which describes itself by its number."""

    def __init__(self, ordinal: int = 0) -> None:
        self._ordinal = ordinal

    def describe(self) -> str:
        return f"number {self._ordinal}"


WRONG, BROKEN = BackendPlace(__name__, "WrongBackend"), BackendPlace(__name__, "BrokenBackend", ("fancy",))


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this module be found by its name, as a backend's is."""
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


def test_a_named_device_is_chosen() -> None:
    assert choose_device("reference") == "reference"
    assert choose_device("cpu") == "cpu"


def test_auto_takes_the_cpu_where_nothing_faster_is_known() -> None:
    assert choose_device("auto") == "cpu"


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(BackendUnavailable, match="abacus") as caught:
        choose_device("abacus")
    assert "auto" in str(caught.value.advice)


def test_a_gpu_may_be_chosen_by_its_number() -> None:
    assert choose_device("CUDA:1") == "cuda:1"


BROKEN_CUPY = """
import os, time

os.write(1, b"tried ")
time.sleep(0.2)
raise ImportError("no driver")
"""
MANY_CHOOSE = """
from concurrent.futures import ThreadPoolExecutor
from rase_models.device_check import choose_device

with ThreadPoolExecutor(8) as threads:
    print(*set(threads.map(choose_device, ["auto"] * 8)))
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="tries MLX out, too")
def test_a_device_is_tried_out_once_however_many_threads_ask_for_one(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="needs rase-models[cpu]")
    (tmp_path / "cupy.py").write_text(BROKEN_CUPY)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", MANY_CHOOSE]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.split() == ["tried", "cpu"]
    assert [line.rpartition(": ")[2] for line in ran.stderr.splitlines()] == ["no driver"]


@pytest.mark.parametrize("name", ["cpu:1", "metal:1", "cuda:", "cuda:x"])
def test_only_gpus_of_cuda_have_numbers(name: str) -> None:
    for choose in (choose_device, load_backend):
        with pytest.raises(BackendUnavailable, match="no such device"):
            choose(name)


def test_the_reference_backend_passes_its_check() -> None:
    report = probe_devices("reference")
    assert report.device is DevicePreference.REFERENCE
    assert "matrix product checked" in str(report.attempts[-1].detail)


def test_auto_says_why_the_others_are_not_used() -> None:
    report = probe_devices("auto")
    assert [attempt.device.value for attempt in report.attempts] == ["cuda", "metal", "cpu"]
    assert report.attempts[0].reason
    assert report.attempts[1].reason
    assert report.device is DevicePreference.CPU


def test_a_backend_says_what_computes() -> None:
    assert f"numpy {np.__version__}" in check_backend(ReferenceBackend())
    detail = str(probe_devices("cpu").attempts[0].detail)
    assert instruction_set().name in detail
    assert "threads: " in detail


def test_a_backend_that_computes_wrong_values_is_not_usable() -> None:
    with pytest.raises(BackendFailure, match="the reference backend computes wrong values"):
        check_backend(WrongBackend())
    report = probe_devices("reference", {"reference": WRONG})
    assert report.device is None
    assert "computes wrong values" in str(report.attempts[0].reason)


@pytest.mark.parametrize("backend", [BrokenBackend(), LoaderFaultBackend()])
def test_a_library_that_cannot_be_loaded_makes_a_backend_unavailable(backend: BrokenBackend) -> None:
    with pytest.raises(BackendUnavailable, match=r"a library cannot be loaded: .*libfancy\.so") as caught:
        check_backend(backend)
    assert "install it again" in str(caught.value.advice)


def test_a_caller_s_own_fault_is_not_a_library_s() -> None:
    class Caller(BrokenBackend):
        fault = BrokenPipeError(errno.EPIPE, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        check_backend(Caller())


@pytest.mark.parametrize(
    ("places", "chosen"),
    [
        ({"cuda": REFERENCE, "metal": WRONG, "cpu": REFERENCE}, CUDA),
        ({"cuda": WRONG, "metal": REFERENCE, "cpu": WRONG}, METAL),
        ({"cuda": WRONG, "metal": BROKEN, "cpu": REFERENCE}, CPU),
        ({"cuda": BackendPlace("nobody_has_this", "X"), "cpu": REFERENCE}, CPU),
    ],
)
def test_auto_chooses_what_the_probe_finds_usable(
    places: dict[str, BackendPlace], chosen: DevicePreference
) -> None:
    report = probe_devices("auto", places)
    assert report.device is chosen
    assert all(attempt.reason for attempt in report.attempts[:-1])
    assert choose_among(DevicePreference.AUTO.candidates(), places) == chosen


def test_auto_tells_of_a_device_that_it_passes_by_where_its_library_is_installed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    places = {"cuda": WRONG, "metal": BackendPlace("nobody_has_this", "X"), "cpu": REFERENCE}
    with caplog.at_level(logging.WARNING):
        choose_among(DevicePreference.AUTO.candidates(), places)
    (record,) = caplog.records
    assert "the device cuda is passed by: the reference backend computes wrong values" in record.message


@pytest.mark.parametrize(
    ("system", "extras", "command"),
    [
        (("darwin", "arm64"), ("metal",), "pip install 'rase-models[metal]'"),
        (("linux", "x86_64"), ("metal",), "pip install 'rase-models[metal]'"),
        (("darwin", "x86_64"), ("metal",), None),
        (("win32", "AMD64"), ("metal",), None),
        (("darwin", "arm64"), ("cuda12", "cuda13"), None),
        (("win32", "AMD64"), ("cuda12", "cuda13"), CUDA_COMMAND),
        (("linux", "aarch64"), ("cuda12", "cuda13"), CUDA_COMMAND),
        (("win32", "AMD64"), ("cpu",), "pip install 'rase-models[cpu]'"),
        (("linux", "x86_64"), (), None),
    ],
)
def test_only_extras_that_bring_something_are_to_be_installed(
    system: tuple[str, str], extras: tuple[str, ...], command: str | None
) -> None:
    assert install_command(extras, System(*system)) == command


def test_a_system_for_which_extras_bring_nothing_is_told_what_they_need() -> None:
    assert "Apple silicon" in str(needs(("metal",)))
    assert "NVIDIA" in str(needs(("cuda12", "cuda13")))
    assert (needs(("cpu",)), needs(())) == (None, None)


def test_the_extras_bring_something_where_the_package_says_so() -> None:
    found: dict[str, list[Marker | None]] = {}
    for line in requires("rase-models") or ():
        requirement = Requirement(line)
        for extra in ("metal", "cuda12", "cuda13"):
            if requirement.marker and f'extra == "{extra}"' in str(requirement.marker):
                found.setdefault(extra, []).append(requirement.marker)
    for system, (extra, markers) in product(SYSTEMS, found.items()):
        here = {"sys_platform": system.platform, "platform_machine": system.machine, "extra": extra}
        brings = any(marker is not None and marker.evaluate(here) for marker in markers)
        assert brings == (install_command([extra], system) is not None), (system, extra)
    assert len(found) == 3


def test_a_device_that_nobody_can_use_is_chosen_last_and_says_why() -> None:
    places = {"cuda": BROKEN, "cpu": BackendPlace("nobody_has_this", "X", ("one", "two"))}
    with pytest.raises(BackendUnavailable, match=r"the cpu backend .*'nobody_has_this'") as caught:
        choose_among(DevicePreference.AUTO.candidates(), places)
    assert caught.value.advice == "pip install 'rase-models[one]' or pip install 'rase-models[two]'"
    reasons = [attempt.reason for attempt in probe_devices("auto", places).attempts]
    assert "libfancy.so" in str(reasons[0]) and "nobody_has_this" in str(reasons[2])


def test_a_gpu_is_probed_by_its_number() -> None:
    report = probe_devices("cuda:1", {"cuda": BackendPlace(__name__, "NumberedBackend")})
    assert (report.requested, report.device) == ("cuda:1", CUDA)
    assert str(report.attempts[0].detail).startswith("number 1")


def test_an_accelerator_is_active_or_there_is_a_reason() -> None:
    numbered = {"cuda": BackendPlace(__name__, "NumberedBackend"), "cpu": REFERENCE}
    assert accelerator("auto", numbered).startswith("active: cuda, number 0")
    assert accelerator("cuda:3", numbered).startswith("active: cuda:3, number 3")
    assert accelerator("auto", {"cuda": BROKEN, "cpu": REFERENCE}).startswith("fallback: cuda: a library")
    assert accelerator("cuda", {"cuda": BROKEN}).startswith("inactive: cuda: a library")
    assert accelerator("reference") == "inactive: reference"


def test_an_unknown_device_cannot_be_probed() -> None:
    with pytest.raises(BackendUnavailable, match="abacus"):
        probe_devices("abacus")
