"""Where the time of requests goes, counted when RASE_PROFILE is 1."""

import os

from rase_core.fork_safe import ForkSafeLock
from rase_core.generation import Generation

from rase_models.backends.run_counters import RUN_COUNTERS

COUNTERS = ("requests", "prefill_tokens", "prefill_ns", "decode_tokens", "decode_ns")
_NS = 1_000_000_000


class Profile:
    """Counters of finished requests: tokens and nanoseconds of prompts and of answers. Thread-safe.

    They stay zero unless the environment variable RASE_PROFILE was 1 when this was made.
    """

    def __init__(self) -> None:
        self._is_on = os.environ.get("RASE_PROFILE") == "1"
        self._lock = ForkSafeLock()
        self._counts = dict.fromkeys(COUNTERS, 0)

    def count(self, generation: Generation) -> None:
        """Add a finished request."""
        if not self._is_on:
            return
        added = (
            1,
            generation.prompt_tokens,
            int(generation.prefill_seconds * _NS),
            len(generation.tokens),
            int(generation.decode_seconds * _NS),
        )
        with self._lock:
            for name, value in zip(COUNTERS, added, strict=True):
                self._counts[name] += value

    def snapshot(self, *, reset: bool = False) -> dict[str, int]:
        """Return the counters, with those of the backends' runs, and start over when `reset`."""
        with self._lock:
            counts = self._counts
            self._counts = dict.fromkeys(COUNTERS, 0) if reset else dict(counts)
        return {**RUN_COUNTERS.snapshot(reset=reset), **counts}
