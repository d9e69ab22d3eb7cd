"""Fixtures of the command line's tests: the program, in this process and in its own, and an empty home."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from rase_cli.program import program
from rase_models.backends.cpu.kernel_cache import cache_directory
from rase_models.engine import Engine

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with an empty home and store, but with compiled kernels."""
    folder = tmp_path / "home"
    folder.mkdir()
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("RASE_", "XDG_", "HF_"))
    }
    own = {
        "HOME": folder,
        "USERPROFILE": folder,
        "RASE_STORE": folder / "store",
        "RASE_CACHE": cache_directory(),
    }
    return kept | {name: str(path) for name, path in own.items()} | {"NO_COLOR": "1"}


@pytest.fixture
def rase(home: dict[str, str]) -> Run:
    """Run `rase ARGUMENTS...` in this process, with nothing on standard input unless `input` is given."""

    def run(*arguments: str, input: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        cleared: dict[str, str | None] = dict.fromkeys(os.environ)
        result = CliRunner().invoke(program, arguments, input, env=cleared | home | environment)
        return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def rase_process(home: dict[str, str]) -> Run:
    """Run `rase ARGUMENTS...` as a process of its own."""

    def run(*arguments: str, input: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rase_cli", *arguments],
            input=input,
            capture_output=True,
            encoding="utf-8",
            env=home | environment,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def smol_manifest(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest of SmolLM2 registered as `smol`, made once."""
    store = tmp_path_factory.mktemp("store")
    Engine(store).import_model(smollm2_path, "smol", chat_template="chatml")
    return store / "manifests" / "smol.toml"


@pytest.fixture
def smol(home: dict[str, str], smol_manifest: Path) -> str:
    """The id of SmolLM2, registered in the home's store."""
    manifests = Path(home["RASE_STORE"]) / "manifests"
    manifests.mkdir(parents=True)
    shutil.copy(smol_manifest, manifests)
    return "smol"
