"""Compiled kernels on disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rase_core.progress import ProgressEvent, ProgressPhase
from rase_models.backends.cpu.compiler import target
from rase_models.backends.cpu.kernel_cache import (
    KernelCache,
    cache_directory,
    fingerprint,
    kernel_sources,
)
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import KernelLibrary

KEY = KernelKey("pauses")


@pytest.fixture
def library(tmp_path: Path) -> KernelLibrary:
    return KernelLibrary(*target(), tmp_path / "kernels")


def compiled_count(library: KernelLibrary) -> int:
    """Require a small kernel, run it, and return how many kernels had to be compiled."""
    events: list[ProgressEvent] = []
    library.require([KEY], events.append)
    library.entry(KEY)(0, 1, 5, 0)
    assert all(event.phase is ProgressPhase.COMPILE for event in events)
    return events[-1].total or 0 if events else 0


def test_a_kernel_is_compiled_once(tmp_path: Path, library: KernelLibrary) -> None:
    assert compiled_count(library) == 1
    assert compiled_count(library) == 0
    assert compiled_count(KernelLibrary(*target(), tmp_path / "kernels")) == 0


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_damaged_entry_is_compiled_again(
    tmp_path: Path, library: KernelLibrary, damage: bytes | None
) -> None:
    compiled_count(library)
    (entry,) = (tmp_path / "kernels").iterdir()
    content = entry.read_bytes()
    entry.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage is None else damage)
    assert compiled_count(KernelLibrary(*target(), tmp_path / "kernels")) == 1
    assert compiled_count(KernelLibrary(*target(), tmp_path / "kernels")) == 0


def test_a_folder_that_cannot_be_written_costs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    library = KernelLibrary(*target(), tmp_path / "file" / "kernels")
    assert compiled_count(library) == 1
    assert "compiled kernels cannot be kept" in caplog.text
    assert f": {tmp_path / 'file'} is no folder" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_code_is_neither_taken_from_nor_put_where_others_may_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "kernels"
    KernelCache(folder).store(KEY, b"code")
    assert KernelCache(folder).load(KEY) == b"code"
    folder.chmod(0o777)
    assert KernelCache(folder).load(KEY) is None
    KernelCache(folder).store(KEY, b"other")
    assert "others may write to it" in caplog.text
    folder.chmod(0o700)
    assert KernelCache(folder).load(KEY) == b"code"


def test_a_folder_that_cannot_be_used_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = KernelCache(tmp_path / "file" / "kernels")
    for _ in range(3):
        cache.store(KEY, b"code")
    assert len(caplog.records) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes of this kind")
def test_a_pipe_in_place_of_code_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"{KEY.symbol}.o")
    tmp_path.chmod(0o700)
    assert KernelCache(tmp_path).load(KEY) is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_the_folder_is_private(tmp_path: Path) -> None:
    KernelCache(tmp_path / "outer" / "kernels").store(KEY, b"code")
    assert (tmp_path / "outer").stat().st_mode & 0o777 == 0o700
    assert [entry.name for entry in (tmp_path / "outer" / "kernels").iterdir()] == ["rase_pauses.o"]


def test_the_environment_names_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RASE_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path
    monkeypatch.delenv("RASE_CACHE")
    assert cache_directory().name == "rase"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="XDG is for other systems")
@pytest.mark.parametrize("named", ["", "relative"])
def test_a_variable_that_names_no_folder_is_an_unset_one(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("RASE_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert cache_directory() == Path.home() / ".cache" / "rase"


def test_another_cpu_has_other_kernels() -> None:
    assert fingerprint("znver5", "+avx2") != fingerprint("haswell", "+avx2")
    assert fingerprint("haswell", "+avx2") != fingerprint("haswell", "-avx2")


def test_the_fingerprint_covers_all_that_kernels_import() -> None:
    code = """
import importlib, sys
from rase_models.backends.cpu.kernels import BUILDERS
for place in BUILDERS.values():
    importlib.import_module(place.partition(":")[0])
print(*(m.__file__ for n, m in sys.modules.items() if n.startswith("rase_models.backends.cpu.")))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    files = {Path(name).name: Path(name) for name in ran.stdout.split()}
    root = files["abi.py"].parent
    covered = {root / source for source in kernel_sources()}
    assert set(files.values()) - covered == set()
    assert all(file.exists() for file in covered)


def test_warm_kernels_run_without_numba(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from rase_models.backends.cpu.compiler import target
from rase_models.backends.cpu.kernel_library import KernelLibrary, KernelKey
library = KernelLibrary(*target(), Path(sys.argv[1]))
library.require([KernelKey("pauses")])
print("numba" in sys.modules)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "kernels")]
    results = [
        subprocess.run(
            command, capture_output=True, text=True, check=True, env=dict(os.environ)
        ).stdout.strip()
        for _ in range(2)
    ]
    assert results == ["True", "False"]
