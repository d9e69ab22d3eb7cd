"""How the threads of a server take turns in the interpreter."""

import contextlib
import sys
from collections.abc import Iterator

SWITCH_SECONDS = 0.0005
"""How long a thread may keep the interpreter from another that waits for it."""


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take short turns while this lasts, for the whole process.

    The thread that computes needs the interpreter between two steps. By Python's own 5 ms it waits longer
    than a step of a small model takes, while a long prompt is checked or a template rendered.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
