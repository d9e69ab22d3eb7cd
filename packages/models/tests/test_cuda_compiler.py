"""What kernels are compiled for, and that every one compiles for every architecture: NVRTC needs no GPU."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rase_core.errors import BackendFailure, BackendUnavailable
from rase_models.backends.cuda.compiler import (
    ARCHITECTURES,
    CompiledKernels,
    all_sources,
    architecture_for,
    compiled,
)
from rase_models.backends.cuda.device import Source

SMALL = Source("q8.cu")
NVRTC_12, NVRTC_13 = (50, 60, 70, 75, 80, 86, 89, 90, 100, 120), (75, 80, 86, 89, 90, 100, 103, 110, 120)


@pytest.fixture(scope="module")
def nvrtc() -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed: pip install 'rase-models[cuda12]'")
    from cupy.cuda import nvrtc

    try:
        nvrtc.getVersion()
    except (ImportError, OSError, RuntimeError) as error:
        pytest.skip(f"NVRTC is not installed: {error}")


@pytest.mark.slow
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_compiles(architecture: str) -> None:
    for source in all_sources():
        assert compiled(source, architecture).startswith(b"\x7fELF")


@pytest.mark.usefixtures("nvrtc")
def test_kernels_compile_for_the_driver_to_compile_them_further() -> None:
    assert b".target sm_90" in compiled(SMALL, "compute_90")


@pytest.mark.usefixtures("nvrtc")
def test_what_does_not_compile_is_told_in_the_compiler_s_words() -> None:
    with pytest.raises(BackendFailure, match=r"floats\.cu does not compile: .*ELEMENT"):
        compiled(Source("floats.cu"), "sm_80")


@pytest.mark.parametrize(
    ("capability", "supported", "architecture"),
    [
        (75, NVRTC_12, "sm_75"),
        (87, NVRTC_12, "sm_86"),
        (103, NVRTC_12, "sm_100"),
        (103, NVRTC_13, "sm_103"),
        (121, NVRTC_12, "sm_120"),
        (130, NVRTC_13, "compute_120"),
        (90, (75, 80), "compute_80"),
    ],
)
def test_a_gpu_that_the_compiler_does_not_know_gets_code_of_an_earlier_one(
    capability: int, supported: tuple[int, ...], architecture: str
) -> None:
    assert architecture_for(capability, supported) == architecture


def test_a_gpu_that_the_compiler_does_not_know_any_more_is_refused() -> None:
    with pytest.raises(BackendUnavailable, match=r"cuda:1 .* 7\.0, this version of NVRTC needs 7\.5"):
        architecture_for(70, NVRTC_13, "cuda:1")


class Compiler:
    """Compiles for one architecture, in place of NVRTC.

    Attributes:
        count: how often it was asked to.
    """

    def __init__(self, architecture: str = "sm_90", version: tuple[int, int] = (12, 9)) -> None:
        self.count = 0
        self._kernels = CompiledKernels(architecture, version, self._make)

    def _make(self, source: Source, architecture: str) -> bytes:
        self.count += 1
        return f"{source.file} for {architecture}".encode()

    def code(self) -> bytes:
        return self._kernels.code(SMALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where compiled kernels are."""
    monkeypatch.setenv("RASE_CACHE", str(tmp_path))
    return tmp_path / "cuda"


def test_compiled_kernels_are_kept_on_the_disk(folder: Path) -> None:
    first, second = Compiler(), Compiler()
    assert first.code() == first.code() == second.code() == b"q8.cu for sm_90"
    assert (first.count, second.count) == (1, 0)
    for other in (Compiler("sm_80"), Compiler(version=(13, 0))):
        other.code()
        assert other.count == 1
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize(
    "damage", [lambda path: path.write_bytes(b"\x7fELF"), lambda path: path.write_bytes(b""), Path.unlink]
)
def test_kernels_that_are_damaged_on_the_disk_are_compiled_again(
    damage: Callable[[Path], object], folder: Path
) -> None:
    Compiler().code()
    damage(next(folder.iterdir()))
    again = Compiler()
    assert (again.code(), again.count) == (b"q8.cu for sm_90", 1)


def test_a_disk_that_takes_no_kernels_costs_compilations_and_is_told_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("no folder")
    found = Compiler()
    with caplog.at_level(logging.WARNING):
        assert found.code() == found.code() == b"q8.cu for sm_90"
    assert (found.count, len(caplog.records)) == (2, 1)
    assert "compiled kernels cannot be kept" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
def test_kernels_are_not_taken_from_a_folder_that_others_may_write_to(folder: Path) -> None:
    Compiler().code()
    folder.chmod(0o777)
    again = Compiler()
    assert (again.code(), again.count) == (b"q8.cu for sm_90", 1)
