"""Where the time of runs goes, counted by backends when RASE_PROFILE is 1."""

import os
from collections.abc import Mapping

from rase_core.fork_safe import ForkSafeLock

COUNTERS = (
    "prefill_calls",
    "prefill_tokens",
    "prefill_forward_ns",
    "gemm_matmul_ns",
    "gemm_dequant_ns",
    "attn_blocked_ns",
    "attn_flash_ns",
    "decode_steps",
    "decode_forward_ns",
    "decode_matvec_ns",
    "decode_attn_ns",
)
"""Runs, rows and nanoseconds of prompts, whatever decodes beside them, then of decoding alone."""


def counting() -> bool:
    """Say whether runs are to be counted."""
    return os.environ.get("RASE_PROFILE") == "1"


class RunCounters:
    """Sums over all runs of a process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._counts = dict.fromkeys(COUNTERS, 0)

    def add(self, counts: Mapping[str, int]) -> None:
        """Add the counts of a run."""
        with self._lock:
            for name, value in counts.items():
                self._counts[name] += value

    def snapshot(self, *, reset: bool = False) -> dict[str, int]:
        """Return the sums, and start over when `reset`."""
        with self._lock:
            counts = self._counts
            self._counts = dict.fromkeys(COUNTERS, 0) if reset else dict(counts)
            return counts


RUN_COUNTERS = RunCounters()
"""The sums of this process."""
