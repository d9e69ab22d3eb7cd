"""The benchmark that soaks a server is run itself, as shortly as it can be."""

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "benchmarks" / "soak.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_soak_shorter_than_a_sample_is_judged(tmp_path: Path) -> None:
    options = ("--seconds", "0.2", "--clients", "2", "--store", str(tmp_path))
    done = subprocess.run([sys.executable, str(SOAK), *options], capture_output=True, encoding="utf-8")
    assert "Traceback" not in done.stderr
    assert "at the end: " in done.stdout and "faults: " in done.stdout
