"""What one step computes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rase_core.decoder import Batch, Logits
from rase_core.scheduler.sequence import Sequence

MOST_TOLD = 64
"""Tokens of prompts whose logits, a whole vocabulary each, are there at once."""


@dataclass(slots=True)
class StepPlan:
    """How many of its pending tokens each sequence gets computed."""

    counts: dict[Sequence, int] = field(default_factory=dict)

    @classmethod
    def of_streams(cls, active: Iterable[Sequence]) -> "StepPlan":
        """Return the plan that lets all that decode go on."""
        return cls({sequence: sequence.pending for sequence in active if sequence.is_decoding})

    @property
    def streams(self) -> int:
        """How many sequences decode."""
        return sum(sequence.is_decoding for sequence in self.counts)

    @property
    def prefilled(self) -> int:
        """How many tokens of prompts are computed."""
        return sum(count for sequence, count in self.counts.items() if not sequence.is_decoding)

    @property
    def depth(self) -> int:
        """The most tokens that come before those of a prompt."""
        return max((sequence.length for sequence in self.counts if not sequence.is_decoding), default=0)

    @property
    def _told(self) -> int:
        return sum(count for sequence, count in self.counts.items() if sequence.tells_prompt)

    def prefill(self, sequence: Sequence, budget: int) -> int:
        """Take as much of a prompt as the budget allows; return the rest of the budget.

        Of the prompts whose logits are told it takes MOST_TOLD tokens in all.
        """
        most = MOST_TOLD - self._told if sequence.tells_prompt else budget
        count = min(budget, sequence.pending, most)
        if count > 0:
            self.counts[sequence] = count
        return budget - count

    def remove(self, sequence: Sequence) -> None:
        """Leave a sequence out."""
        self.counts.pop(sequence, None)

    def needs(self) -> dict[int, int]:
        """Return the new tokens of each of the decoder's sequences, by handle."""
        return {sequence.handle: count for sequence, count in self.counts.items()}

    def completed(self) -> list[Sequence]:
        """Return the sequences that get logits, in the order of their rows."""
        return [sequence for sequence, count in self.counts.items() if count == sequence.pending]

    def without_prompts(self, logits: Logits) -> Logits:
        """Give the sequences that tell of their prompt its rows; return the rows of `completed`."""
        if not any(sequence.tells_prompt for sequence in self.counts):
            return logits
        ends = np.cumsum([self._outputs(sequence) for sequence in self.counts])
        is_whole = [count == sequence.pending for sequence, count in self.counts.items()]
        starts = [end - self._outputs(s) for s, end in zip(self.counts, ends.tolist(), strict=True)]
        for sequence, start, end in zip(self.counts, starts, ends.tolist(), strict=True):
            if sequence.tells_prompt:
                sequence.see_prompt(logits[start:end])
        rows: Logits = logits[(ends - 1)[is_whole]]
        return rows

    def batch(self) -> Batch:
        """Return the rows for the decoder."""
        counts = np.fromiter(self.counts.values(), np.int32, len(self.counts))
        handles = np.array([sequence.handle for sequence in self.counts], np.int32)
        lengths = np.array([sequence.length for sequence in self.counts], np.int32)
        pending = np.array([sequence.pending for sequence in self.counts], np.int32)
        ends = np.cumsum(counts, dtype=np.int32)
        before = ends - counts
        return Batch(
            sequences=np.repeat(handles, counts),
            positions=np.arange(ends[-1], dtype=np.int32) + np.repeat(lengths - before, counts),
            tokens=np.concatenate([sequence.chunk(count) for sequence, count in self.counts.items()]),
            outputs=self._output_rows(ends, counts == pending),
        )

    def _outputs(self, sequence: Sequence) -> int:
        """Return how many rows of logits a sequence gets."""
        count = self.counts[sequence]
        return count if sequence.tells_prompt else int(count == sequence.pending)

    def _output_rows(self, ends: NDArray[np.int32], is_whole: NDArray[np.bool_]) -> NDArray[np.int32]:
        if not any(sequence.tells_prompt for sequence in self.counts):
            return (ends - 1)[is_whole]
        rows = [
            np.arange(end - self._outputs(sequence), end, dtype=np.int32)
            for sequence, end in zip(self.counts, ends.tolist(), strict=True)
        ]
        return np.concatenate(rows)
