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
        inside = step.outputs.ndim == 1 and bool(np.all((step.outputs >= 0) & (step.outputs < rows[0])))
        if not inside or bool(np.any(np.diff(step.outputs) <= 0)):
            raise ValueError("outputs of a batch must be ascending indices of its rows")
        return step

    def spans(self) -> dict[int, Span]:
        """Return the rows of each sequence; ValueError unless they are adjacent and ascend by one."""
        edges = (np.flatnonzero(np.diff(self.sequences)) + 1).tolist()
        spans: dict[int, Span] = {}
        for start, end in pairwise([0, *edges, len(self.tokens)] if len(self.tokens) else []):
            sequence = int(self.sequences[start])
            if sequence in spans:
                raise ValueError(f"the rows of sequence {sequence} are not adjacent")
            if np.any(np.diff(self.positions[start:end]) != 1):
                raise ValueError(f"the positions of sequence {sequence} do not ascend by one")
            spans[sequence] = Span(int(self.positions[start]), end - start)
        return spans

    def chunks(self, max_rows: int) -> Iterator["Step"]:
        """Cut the rows into steps of at most `max_rows`."""
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
        self, blocks: Callable[[int], Sequence[int]], slot: Callable[[int], int] | None = None
    ) -> Rows:
        """Return the rows with the block tables of their sequences, and the slots of their states if any."""
        handles, sequences = np.unique(self.sequences, return_inverse=True)
        tables = [blocks(handle) for handle in handles.tolist()]
        block_tables = np.full((len(tables), max(map(len, tables))), -1, np.int32)
        for index, table in enumerate(tables):
            block_tables[index, : len(table)] = table
        states = np.array([slot(handle) for handle in handles.tolist()] if slot else [], np.int32)
        return Rows(
            sequences.astype(np.int32), self.positions, self.tokens, self.outputs, block_tables, states
        )


def counts_of(spans: Mapping[int, Span]) -> dict[int, int]:
    """Return the number of rows of each sequence."""
    return {sequence: span.count for sequence, span in spans.items()}
