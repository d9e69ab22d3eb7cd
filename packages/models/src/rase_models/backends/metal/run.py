"""A run of a Program: what its ops read and write."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

from rase_models.backends.base import BLOCK_TOKENS, Rows
from rase_models.backends.metal.cache import LayerCache
from rase_models.backends.metal.groups import Group, groups_of, window_of
from rase_models.backends.metal.matrices import Matrix
from rase_models.backends.metal.seen import Seen
from rase_models.program import Rope

States = list[list[mx.array]]
"""Of each stateful op, float32 [size] in each slot. Arrays are replaced, never written to."""


@dataclass(slots=True)
class Run:
    """The rows of a run, its weights, caches and states, and the buffers so far, float32 [rows, width].

    Attributes:
        states: ops put new arrays there.
        is_in_order: whether there is one group, with the rows as they are in the run.
        turns: cosines and sines of rotations, computed once in a run.
    """

    rows: Rows
    weights: Mapping[str, Matrix]
    caches: Sequence[LayerCache]
    states: States
    groups: tuple[Group, ...]
    is_in_order: bool
    buffers: dict[str, mx.array] = field(default_factory=dict)
    turns: dict[Rope, tuple[mx.array, mx.array]] = field(default_factory=dict)
    _seen: dict[tuple[int, int, int | None, bool], Seen] = field(default_factory=dict)
    _places: dict[int, tuple[mx.array, mx.array]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: Rows, weights: Mapping[str, Matrix], caches: Sequence[LayerCache], states: States
    ) -> "Run":
        """Begin a run."""
        groups = groups_of(rows)
        is_in_order = len(groups) == 1 and bool((np.diff(groups[0].rows.reshape(-1)) == 1).all())
        return cls(rows, weights, caches, states, groups, is_in_order)

    def parts(self, name: str, count: int) -> mx.array:
        """Return the equal parts of every row of a buffer: [rows, parts, width / parts]."""
        values = self.buffers[name]
        return values.reshape(values.shape[0], count, -1)

    def vector(self, name: str) -> mx.array:
        """Return a weight as float32."""
        return self.weights[name].floats()

    def seen(self, group: int, kv_group: int, window: int | None, chunked: bool) -> Seen:
        """Return what a group of sequences sees in a group of layers; computed once in a run."""
        key = (group, kv_group, window, chunked)
        if key not in self._seen:
            table = self.rows.block_tables[kv_group]
            self._seen[key] = Seen(window_of(self.groups[group], table, window, chunked))
        return self._seen[key]

    def places(self, kv_group: int) -> tuple[mx.array, mx.array]:
        """Return each row's block of a group of layers and its place there; computed once in a run."""
        if kv_group not in self._places:
            rows, positions = self.rows, self.rows.positions
            blocks = rows.block_tables[kv_group][rows.sequences, positions // BLOCK_TOKENS]
            self._places[kv_group] = mx.array(blocks), mx.array(positions % BLOCK_TOKENS)
        return self._places[kv_group]

    def rows_of(self, values: mx.array, group: Group) -> mx.array:
        """Return the rows of a group: [sequences, rows of each, ...]."""
        if self.is_in_order:
            return values.reshape(*group.rows.shape, *values.shape[1:])
        return values[mx.array(group.rows)]

    def gathered(self, values: Sequence[mx.array]) -> mx.array:
        """Put results of the groups, [sequences, rows of each, width], back in the run's order."""
        flat = [value.reshape(-1, value.shape[-1]) for value in values]
        if self.is_in_order:
            return flat[0]
        order = np.concatenate([group.rows.reshape(-1) for group in self.groups])
        return mx.concatenate(flat)[mx.array(np.argsort(order))]

    def states_of(self, layer: int) -> Iterator[tuple[Group, mx.array]]:
        """Give each group with its states before its rows, [sequences, size]; zeros before a sequence."""
        for group in self.groups:
            slots, first = self.rows.states[group.sequences], group.positions[:, 0]
            held = (self.states[layer][slot] for slot in slots)
            yield (
                group,
                mx.stack([s if p > 0 else mx.zeros_like(s) for s, p in zip(held, first, strict=True)]),
            )

    def keep_states(self, layer: int, group: Group, states: mx.array) -> None:
        """Replace the states of a group; each is an array of its own, which outlives those beside it."""
        for slot, state in zip(self.rows.states[group.sequences], states, strict=True):
            self.states[layer][slot] = mx.contiguous(state.reshape(-1))
