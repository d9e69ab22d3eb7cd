"""The rows of one step of a decoder: checked, cut to what a runner takes, given their block tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rase_core.decoder import Batch

from rase_models.backends.base import Rows

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Span:
    """The rows of one sequence in a step: so many tokens from this position on."""

    start: int
    count: int

    @property
    def end(self) -> int:
        """The length of the sequence after the step."""
        return self.start + self.count


@dataclass(frozen=True, slots=True)
class Step:
    """Rows by sequence handle, int32 arrays as those of a Batch."""

    sequences: Ints
    positions: Ints
    tokens: Ints
    outputs: Ints

    @classmethod
    def of_sequence(cls, sequence: int, start: int, tokens: Ints, outputs: Sequence[int]) -> "Step":
        """Return the step that appends tokens to one sequence of length `start`."""
        count = len(tokens)
        positions = np.arange(start, start + count, dtype=np.int32)
        return cls(np.full(count, sequence, np.int32), positions, tokens, np.array(outputs, np.int32))

    @classmethod
    def of_batch(cls, batch: Batch) -> "Step":
        """Return a caller's batch as a step; ValueError when its arrays do not fit together."""
        fields = (batch.sequences, batch.positions, batch.tokens, batch.outputs)
        if any(field.dtype != np.int32 for field in fields):
            raise ValueError("the arrays of a batch must be int32")
        step = cls(*fields)
        rows = step.tokens.shape
        if len(rows) != 1 or step.sequences.shape != rows or step.positions.shape != rows:
            raise ValueError(
                "sequences, positions and tokens of a batch must be one-dimensional and equally long"
            )
        edges = (-1, *step.outputs.reshape(-1).tolist(), rows[0])
        if step.outputs.ndim != 1 or any(before >= after for before, after in pairwise(edges)):
            raise ValueError("outputs of a batch must be ascending indices of its rows")
        return step

    def spans(self) -> dict[int, Span]:
        """Return the rows of each sequence; ValueError unless they are adjacent and ascend by one."""
        firsts: dict[int, int] = {}
        counts: dict[int, int] = {}
        current: int | None = None
        for sequence, position in zip(self.sequences.tolist(), self.positions.tolist(), strict=True):
            if sequence != current:
                if sequence in firsts:
                    raise ValueError(f"the rows of sequence {sequence} are not adjacent")
                current, firsts[sequence], counts[sequence] = sequence, position, 0
            if position != firsts[sequence] + counts[sequence]:
                raise ValueError(f"the positions of sequence {sequence} do not ascend by one")
            counts[sequence] += 1
        return {sequence: Span(first, counts[sequence]) for sequence, first in firsts.items()}

    def chunks(self, max_rows: int) -> Iterator["Step"]:
        """Cut the rows into steps of at most `max_rows`."""
        if 0 < len(self.tokens) <= max_rows:
            yield self
            return
        for start in range(0, len(self.tokens), max_rows):
            end = min(start + max_rows, len(self.tokens))
            low, high = np.searchsorted(self.outputs, (start, end))
            yield Step(
                self.sequences[start:end],
                self.positions[start:end],
                self.tokens[start:end],
                self.outputs[low:high] - np.int32(start),
            )

    def cut(self, multiple: int) -> list[tuple["Step", Ints]]:
        """Cut every sequence at the last multiple of a length that it reaches: into one or two steps.

        Each comes with the places of its outputs among those of the whole.
        """
        ends = {sequence: span.end for sequence, span in self.spans().items()}
        last = np.array([ends[sequence] for sequence in self.sequences.tolist()], np.int32)
        before = self.positions < last // multiple * multiple
        starts = np.isin(self.sequences, self.sequences[before], invert=True)
        first = before | starts  # a sequence that reaches no multiple stays whole
        return [self._only(np.flatnonzero(mask)) for mask in (first, ~first) if mask.any()]

    def _only(self, rows: NDArray[np.int64]) -> tuple["Step", Ints]:
        """Return some of the rows, and the places of their outputs."""
        places = np.flatnonzero(np.isin(self.outputs, rows)).astype(np.int32)
        outputs = np.searchsorted(rows, self.outputs[places]).astype(np.int32)
        return Step(self.sequences[rows], self.positions[rows], self.tokens[rows], outputs), places

    def placed(
        self, blocks: Callable[[int], Sequence[Sequence[int]]], slot: Callable[[int], int] | None = None
    ) -> Rows:
        """Return the rows with the block tables of their sequences, and the slots of their states if any."""
        counts = counts_of(self.spans())
        sequences = np.repeat(np.arange(len(counts), dtype=np.int32), list(counts.values()))
        block_tables = _joined([blocks(handle) for handle in counts])
        states = np.array([slot(handle) for handle in counts] if slot else [], np.int32)
        return Rows(sequences, self.positions, self.tokens, self.outputs, block_tables, states)


def _joined(tables: Sequence[Sequence[Sequence[int]]]) -> Ints:
    """Return the block tables of sequences, of each a table for each group, as those of Rows."""
    longest = max((len(table) for own in tables for table in own), default=0)
    joined = np.full((len(tables[0]), len(tables), longest), -1, np.int32)
    for index, own in enumerate(tables):
        for group, table in enumerate(own):
            joined[group, index, : len(table)] = table
    return joined


def counts_of(spans: Mapping[int, Span]) -> dict[int, int]:
    """Return the number of rows of each sequence."""
    return {sequence: span.count for sequence, span in spans.items()}
