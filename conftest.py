"""How the tests of all packages run: what hypothesis tries, and what costs time in every worker."""

import gc
import os
import sys
from pathlib import Path

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
