"""How kernels put their thread to sleep: by Linux's futex(2), where its number is known."""

import platform
import sys

NUMBERS = {"x86_64": 202, "aarch64": 98}
"""The number of the system call by machine."""


def futex_number() -> int:
    """Return the number of the system call here, 0 where kernels cannot sleep and Python has to."""
    return NUMBERS.get(platform.machine(), 0) if sys.platform == "linux" else 0
