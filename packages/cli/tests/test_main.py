"""The root command: quick, lazy, one place for errors."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rase_cli.program import COMMANDS, program

PROGRAM = shlex.join([sys.executable, "-m", "rase_cli"])

HEAVY = (
    "numba",
    "numpy",
    "rich",
    "gguf",
    "tokenizers",
    "jinja2",
    "huggingface_hub",
    "uvicorn",
    "rase_models",
)

EVERY_HELP = """
import json, sys
from click.testing import CliRunner
import click
from rase_cli.program import program

def paths(command, path=()):
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from paths(command.get_command(context, name), (*path, name))

runner = CliRunner()
codes = {" ".join(path): runner.invoke(program, [*path, "--help"]).exit_code for path in paths(program)}
print(json.dumps({"codes": codes, "modules": sorted(sys.modules)}))
"""


def test_no_help_imports_anything_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", EVERY_HELP], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found["codes"]) > 12
    assert set(found["codes"].values()) == {0}
    assert not {module.split(".")[0] for module in found["modules"]} & set(HEAVY)


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="needs the processor time of a child")
def test_help_takes_less_than_three_tenths_of_a_second() -> None:
    def cpu_seconds() -> float:
        child = subprocess.Popen([sys.executable, "-m", "rase_cli", "--help"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
        return usage.ru_utime + usage.ru_stime

    assert min(cpu_seconds() for _ in range(5)) < 0.3


def test_each_command_of_the_table_exists() -> None:
    context = click.Context(program)
    for name in COMMANDS:
        assert program.get_command(context, name) is not None, name


def test_an_unknown_command_is_wrong_usage() -> None:
    result = CliRunner().invoke(program, ["fly"])
    assert result.exit_code == 2
    assert "No such command 'fly'" in result.stderr


def test_the_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    result = CliRunner().invoke(program, ["--version"])
    assert result.stdout == f"rase {version('rase-cli')}\n"


def test_python_can_run_the_package() -> None:
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "rase_cli", "--version"], capture_output=True, check=True)
    assert done.stdout.startswith(b"rase ")
    assert time.monotonic() - started < 30


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
@pytest.mark.parametrize("arguments", ["--help", "--version", "model list --json"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output_is_named(
    home: dict[str, str], arguments: str, unbuffered: str
) -> None:
    done = shell(f"{PROGRAM} {arguments} > /dev/full", home | {"PYTHONUNBUFFERED": unbuffered})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: standard output cannot be written: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
@pytest.mark.parametrize("lost", ["2> /dev/full", "2> >(true)"])
def test_what_standard_error_does_not_take_ends_nothing(
    home: dict[str, str], smollm2_path: Path, lost: str
) -> None:
    work = (
        f"sleep 0.1; {PROGRAM} model import {smollm2_path} --id a && {PROGRAM} generate a Hi --max-tokens 2"
    )
    done = shell(f"bash -c '({work}) {lost}'", home)
    assert done.returncode == 0 and done.stdout


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", ["--help", "model list --json", "chat nobody hello"])
def test_a_closed_standard_stream_is_none_to_fail_on(
    home: dict[str, str], arguments: str, closed: str
) -> None:
    done = shell(f"{PROGRAM} {arguments} {closed}", home)
    assert done.returncode == (3 if "nobody" in arguments else 0)
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals")
@pytest.mark.parametrize("name", ["click", "rase_cli.program"])
def test_an_interrupt_while_the_program_is_imported_ends_it_quietly(name: str) -> None:
    code = f"""
import builtins, os, signal
original = builtins.__import__
def interrupting(module, *rest):
    if module == {name!r}:
        os.kill(os.getpid(), signal.SIGINT)
    return original(module, *rest)
builtins.__import__ = interrupting
from rase_cli.main import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Error: interrupted\n")


def shell(command: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        shell=True,
        capture_output=True,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize("text", ["", "x", "1.5"])
def test_what_is_no_number_is_told_in_words(text: str) -> None:
    done = CliRunner().invoke(program, ("serve", "--port", text))
    assert done.exit_code == 2
    assert f"Invalid value for '--port': '{text}' is not a valid whole number." in done.stderr
