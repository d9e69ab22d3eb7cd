"""Processes that compile kernels for this one."""

import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from rase_core.errors import BackendFailure
from rase_core.testing_waits import wait_for
from rase_models.backends.cpu import compiler_process, compilers
from rase_models.backends.cpu.compiler import compile_kernel, target
from rase_models.backends.cpu.compiler_process import CompilerProcess
from rase_models.backends.cpu.compilers import Compilers, compiler_count
from rase_models.backends.cpu.kernel_key import KernelKey

SMALL = KernelKey("pauses")
CHILDREN = Path("/proc/self/task")
OF_PARAMETERS = KernelKey("repack_matrix", ("q4_1",))


def children() -> set[str]:
    """The numbers of this process's children, those that ended and are not waited for among them."""
    return {number for file in CHILDREN.glob("*/children") for number in file.read_text().split()}


def instructions(code: bytes) -> list[bytes]:
    """The machine code of object code; names of inner functions count compilations."""
    sections = llvm.ObjectFileRef.from_data(code).sections()
    found = [bytes(section.data()) for section in sections if section.is_text()]
    assert found
    return found


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RASE_COMPILE_PROCESSES", "2")


@pytest.mark.usefixtures("two_processes")
def test_a_kernel_is_the_same_whichever_process_compiled_it() -> None:
    compiled = dict(Compilers(*target()).compile([SMALL, OF_PARAMETERS]))
    assert list(map(instructions, compiled.values())) == [
        instructions(compile_kernel(key, *target())) for key in compiled
    ]


@pytest.mark.usefixtures("two_processes")
def test_a_process_that_ends_is_replaced_by_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/nowhere"])  # where a process finds nothing of rase
    assert dict(Compilers(*target()).compile([SMALL]))


@pytest.mark.usefixtures("two_processes")
def test_a_process_with_other_sources_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_process, "fingerprint", lambda cpu, features: "of another version")
    process = CompilerProcess.start()
    assert process is not None
    assert process.compile(SMALL, *target()) is None
    process.close()


@pytest.mark.skipif(not CHILDREN.is_dir(), reason="this system does not list children")
@pytest.mark.usefixtures("two_processes")
def test_processes_with_nothing_to_do_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "_IDLE_SECONDS", 0.1)
    before, mine = children(), Compilers(*target())
    list(mine.compile([SMALL]))
    wait_for(lambda: children() <= before)


@pytest.mark.usefixtures("two_processes")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("executable", None),
        ("executable", "/usr/bin/editor"),
        ("executable", "/nowhere/python"),
        ("frozen", True),
    ],
)
def test_a_program_that_is_no_python_compiles_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr(sys, name, value, raising=False)
    assert CompilerProcess.start() is None
    assert dict(Compilers(*target()).compile([SMALL]))


def test_a_process_is_used_again_and_ends_with_its_owner() -> None:
    process = CompilerProcess.start()
    assert process is not None
    assert process.compile(SMALL, *target())
    assert process.compile(SMALL, *target())
    assert process.is_running
    process.close()
    assert not process.is_running


def test_an_unknown_kernel_ends_the_process_and_fails_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RASE_COMPILE_PROCESSES", "2")
    with pytest.raises(KeyError, match="unheard_of"):
        list(Compilers(*target()).compile([KernelKey("unheard_of")]))


def test_nothing_that_lies_about_gets_into_what_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("numba", "sitecustomize", "usercustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    process = CompilerProcess.start()
    assert process is not None
    assert process.compile(SMALL, *target())
    assert not (tmp_path / "ran").exists()
    process.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_leaves_its_parent_s_compilers_alone() -> None:
    code = """
import os, sys
from rase_models.backends.cpu.compiler import target
from rase_models.backends.cpu.compilers import Compilers
from rase_models.backends.cpu.kernel_key import KernelKey
compilers, key = Compilers(*target()), KernelKey("pauses")
list(compilers.compile([key]))
child = os.fork()
compiled = bool(dict(compilers.compile([key])))
if not child:
    raise SystemExit(0 if compiled else 1)
_, status = os.waitpid(child, 0)
print(compiled, status, bool(dict(compilers.compile([key]))), "numba" in sys.modules)
"""
    environment = {**os.environ, "RASE_COMPILE_PROCESSES": "2"}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=environment
    )
    assert (ran.stdout.split(), ran.stderr) == (["True", "0", "True", "False"], "")


@pytest.mark.parametrize("value", ["0", "-1", "two", "100000"])
def test_a_number_of_processes_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("RASE_COMPILE_PROCESSES", value)
    with pytest.raises(BackendFailure, match="RASE_COMPILE_PROCESSES must be a whole number from 1 to"):
        compiler_count()


def test_as_many_processes_as_threads_compile_but_no_more_than_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RASE_COMPILE_PROCESSES", raising=False)
    monkeypatch.setenv("RASE_NUM_THREADS", "1")
    assert compiler_count() == 1
    monkeypatch.setenv("RASE_NUM_THREADS", "7")
    assert compiler_count() == 4
