"""What one step computes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rase_core.decoder import Batch, Logits
from rase_core.scheduler.sequence import Sequence

MOST_TOLD = 64
"""Tokens of prompts whose logits, a whole vocabulary each, are there at once."""
_NOTHING = np.empty(0, np.int32)


@dataclass(slots=True)
class StepPlan:
    """How many of its pending tokens each sequence gets computed, and which guesses (`drafts`) after them."""

    counts: dict[Sequence, int] = field(default_factory=dict)
    drafts: dict[Sequence, NDArray[np.int32]] = field(default_factory=dict)

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
    def rows(self) -> int:
        """How many tokens are computed, guesses apart."""
        return sum(self.counts.values())

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

    def draft(self, rows: int, most: int) -> None:
        """Guess how the streams go on, in so many rows for all of them and at most `most` for each."""
        share = min(rows // max(self.streams, 1), most) if rows > 0 else 0
        if share > 0:
            drafts = ((sequence, sequence.draft(share)) for sequence in self.counts)
            self.drafts = {sequence: draft for sequence, draft in drafts if len(draft)}

    def draft_of(self, sequence: Sequence) -> NDArray[np.int32]:
        """Return what is guessed of a sequence."""
        return self.drafts.get(sequence, _NOTHING)

    def remove(self, sequence: Sequence) -> None:
        """Leave a sequence out."""
        self.counts.pop(sequence, None)
        self.drafts.pop(sequence, None)

    def needs(self) -> dict[int, int]:
        """Return the new tokens of each of the decoder's sequences, by handle."""
        return {sequence.handle: self._rows_of(sequence) for sequence in self.counts}

    def completed(self) -> list[Sequence]:
        """Return the sequences that get logits, in the order of their rows."""
        return [sequence for sequence, count in self.counts.items() if count == sequence.pending]

    def without_prompts(self, logits: Logits) -> Logits:
        """Give the sequences that tell of their prompt its rows; return those of `completed`.

        A sequence has one, and one more after each of its guesses.
        """
        if not any(sequence.tells_prompt for sequence in self.counts):
            return logits
        kept, end = list[int](), 0
        for sequence, count in self.counts.items():
            start, end = end, end + self._outputs(sequence)
            if sequence.tells_prompt:
                sequence.see_prompt(logits[start:end])
                start = end - 1
            if count == sequence.pending:
                kept += range(start, end)
        rows: Logits = logits[kept]
        return rows

    def batch(self) -> Batch:
        """Return the rows for the decoder."""
        counts = np.array([self._rows_of(sequence) for sequence in self.counts], np.int32)
        handles = np.array([sequence.handle for sequence in self.counts], np.int32)
        lengths = np.array([sequence.length for sequence in self.counts], np.int32)
        ends = np.cumsum(counts, dtype=np.int32)
        before = ends - counts
        return Batch(
            sequences=np.repeat(handles, counts),
            positions=np.arange(ends[-1], dtype=np.int32) + np.repeat(lengths - before, counts),
            tokens=np.concatenate([self._tokens_of(sequence) for sequence in self.counts]),
            outputs=self._output_rows(ends),
        )

    def _rows_of(self, sequence: Sequence) -> int:
        return self.counts[sequence] + len(self.draft_of(sequence))

    def _tokens_of(self, sequence: Sequence) -> NDArray[np.int32]:
        chunk, draft = sequence.chunk(self.counts[sequence]), self.draft_of(sequence)
        return np.concatenate((chunk, draft)) if len(draft) else chunk

    def _outputs(self, sequence: Sequence) -> int:
        """Return how many rows of logits a sequence gets."""
        count = self.counts[sequence]
        if sequence.tells_prompt:
            return count
        return 1 + len(self.draft_of(sequence)) if count == sequence.pending else 0

    def _output_rows(self, ends: NDArray[np.int32]) -> NDArray[np.int32]:
        outputs = [self._outputs(sequence) for sequence in self.counts]
        if max(outputs) <= 1:
            return (ends - 1)[np.array(outputs, np.bool_)]
        rows = [np.arange(end - some, end) for end, some in zip(ends.tolist(), outputs, strict=True)]
        return np.concatenate(rows).astype(np.int32)
