"""Counts where the time of runs goes: thread 0 notes the cycles of every op, and of the waits after it."""

from collections.abc import Mapping, Sequence

import numpy as np

from rase_models.backends.base import Rows
from rase_models.backends.cpu.arena import Region
from rase_models.backends.cpu.op_table import Row
from rase_models.backends.run_counters import RUN_COUNTERS

_COUNTERS_OF_OP = 2
_KINDS: Mapping[str, str] = {
    "attend": "attention",
    "merge_spans": "attention",
    "prepare_heads": "attention",
    "store_kv": "attention",
    "linear": "matmul",
    "gated_linear": "matmul",
    "gated_experts": "matmul",
    "expert_linear": "matmul",
}
"""What a kernel's time counts as; that of others counts as part of the whole alone."""

_PREFILL = ("prefill_calls", "prefill_forward_ns", "gemm_matmul_ns", "attn_blocked_ns")
_DECODE = ("decode_steps", "decode_forward_ns", "decode_matvec_ns", "decode_attn_ns")


class RunProfile:
    """The counters of one op table, whose sequences decode in so many rows at most: a token and guesses.

    Attributes:
        address: where the kernels count, two int64 an op.
    """

    def __init__(self, rows: Sequence[Row], most_decoded: int = 1) -> None:
        self._most_decoded = most_decoded
        self._memory = Region(8 * _COUNTERS_OF_OP * len(rows))
        self._cycles = self._memory.bytes.view(np.int64).reshape(-1, _COUNTERS_OF_OP)
        self.address = self._memory.address
        kinds = [_KINDS.get(row.kernel.name) for row in rows]
        self._is_matmul = np.array([kind == "matmul" for kind in kinds])
        self._is_attention = np.array([kind == "attention" for kind in kinds])

    def add(self, rows: Rows, nanoseconds: int) -> None:
        """Add a run to the sums of the process, and start over.

        A run counts as a prompt's when a sequence has more rows than decode; the rows of others are not its
        tokens.
        """
        cycles = self._cycles.sum(axis=1)
        scale = nanoseconds / max(int(cycles.sum()), 1)
        matmul, attention = (
            int(cycles[which].sum() * scale) for which in (self._is_matmul, self._is_attention)
        )
        counted = np.bincount(rows.sequences)
        prompts = int(counted[counted > self._most_decoded].sum())
        names = _PREFILL if prompts else _DECODE
        counts = dict(zip(names, (1, nanoseconds, matmul, attention), strict=True))
        if names is _PREFILL:
            counts["prefill_tokens"] = prompts
        RUN_COUNTERS.add(counts)
        self._cycles[:] = 0
