"""The memory that the C library keeps for later."""

import os
import subprocess
import sys

import pytest

BLOCKS = """
import threading
from rase_cli.allocator import give_large_blocks_back

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

def use():
    everybody.wait()
    for _ in range(4):
        block = bytes(8_000_000)
        everybody.wait()
        del block
    everybody.wait()

{call}
everybody = threading.Barrier(17)
before = resident_mb()
threads = [threading.Thread(target=use) for _ in range(16)]
for thread in threads:
    thread.start()
for _ in range(6):
    everybody.wait()
print(resident_mb() - before)
"""


def kept_mb(call: str, **environment: str) -> float:
    """Return the memory that is kept of long texts in 16 threads."""
    command, own = [sys.executable, "-c", BLOCKS.format(call=call)], {**os.environ, **environment}
    return float(
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=own).stdout
    )


def is_glibc() -> bool:
    try:
        return sys.platform == "linux" and "glibc" in str(os.confstr("CS_GNU_LIBC_VERSION"))
    except ValueError:
        return False


@pytest.mark.skipif(not is_glibc(), reason="it is glibc that keeps memory for each thread")
def test_large_blocks_go_back_to_the_system_unless_the_environment_says_otherwise() -> None:
    assert kept_mb("give_large_blocks_back()") < 40 < 100 < kept_mb("")
    own = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "50000000"}
    assert kept_mb("give_large_blocks_back()", **own) > 100
    assert kept_mb("give_large_blocks_back()", GLIBC_TUNABLES="", MALLOC_TRIM_THRESHOLD_="") < 40


def test_it_can_be_called_anywhere() -> None:
    command = [sys.executable, "-c", "from rase_cli.allocator import *; give_large_blocks_back()"]
    subprocess.run(command, check=True, timeout=60)
