"""A run of a Program: what its ops read and write."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

from rase_models.backends.base import Rows
from rase_models.backends.metal.cache import LayerCache
from rase_models.backends.metal.groups import Group, Ints, groups_of, window_of
from rase_models.backends.metal.matrices import Matrix
from rase_models.program import Rope


@dataclass(frozen=True, slots=True)
class Seen:
    """A Window, `blocks` and `visible` on the device."""

    blocks: mx.array
    visible: mx.array
    distance: Ints


@dataclass(slots=True)
class Run:
    """The rows of a run, its weights, caches and states, and the buffers so far, float32 [rows, width].

    Attributes:
        states: of each stateful op, float32 [slots, size]; ops put new arrays there.
        turns: cosines and sines of rotations, computed once in a run.
    """

    rows: Rows
    weights: Mapping[str, Matrix]
    caches: Sequence[LayerCache]
    states: list[mx.array]
    groups: tuple[Group, ...]
    buffers: dict[str, mx.array] = field(default_factory=dict)
    turns: dict[Rope, tuple[mx.array, mx.array]] = field(default_factory=dict)
    _seen: dict[tuple[int, int, int | None, bool], Seen] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: Rows, weights: Mapping[str, Matrix], caches: Sequence[LayerCache], states: list[mx.array]
    ) -> "Run":
        """Begin a run."""
        return cls(rows, weights, caches, states, groups_of(rows))

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
            found = window_of(self.groups[group], table, window, chunked)
            self._seen[key] = Seen(mx.array(found.blocks), mx.array(found.visible), found.distance)
        return self._seen[key]

    def gathered(self, values: Sequence[mx.array]) -> mx.array:
        """Put results of the groups, [sequences, rows of each, width], back in the run's order."""
        order = np.argsort(np.concatenate([group.rows.reshape(-1) for group in self.groups]))
        flat = [value.reshape(-1, value.shape[-1]) for value in values]
        return mx.concatenate(flat)[mx.array(order)]

    def states_of(self, layer: int) -> Iterator[tuple[Group, mx.array]]:
        """Give each group with its states before its rows, [sequences, size]; zeros before a sequence."""
        for group in self.groups:
            held = self.states[layer][mx.array(self.rows.states[group.sequences])]
            goes_on = mx.array(group.positions[:, :1] > 0)
            yield group, mx.where(goes_on, held, 0)

    def keep_states(self, layer: int, group: Group, states: mx.array) -> None:
        """Replace the states of a group."""
        slots = mx.array(self.rows.states[group.sequences])
        self.states[layer][slots] = states.reshape(len(group.sequences), -1)
