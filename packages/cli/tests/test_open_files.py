"""How many files a server may have open."""

import subprocess
import sys

import pytest

RAISED = """
import resource
from rase_cli.open_files import open_as_many_as_may_be

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200))
open_as_many_as_may_be()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_a_server_has_as_many_files_open_as_the_system_lets_it() -> None:
    pytest.importorskip("resource")
    ran = subprocess.run([sys.executable, "-c", RAISED], capture_output=True, text=True, check=True)
    assert ran.stdout == "(200, 200)\n"
