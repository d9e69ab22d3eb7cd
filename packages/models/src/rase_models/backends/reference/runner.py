"""Run Programs in numpy, with float32 copies of the weights."""

import math
import platform
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from rase_core.progress import Progress

from rase_models.backends.base import MemoryNeeds, Rows, Threads
from rase_models.backends.reference.cache import layer_caches
from rase_models.backends.reference.ops import execute
from rase_models.backends.reference.run import Run
from rase_models.gguf import TensorInfo, Weight
from rase_models.gguf.quants import dequantize
from rase_models.kv_type import KvType
from rase_models.program import Program, TensorSlice

Floats = NDArray[np.float32]


class ReferenceRunner:
    """A Program with its weights in numpy arrays."""

    max_rows = 512
    cheap_rows = 1
    threads = None

    def __init__(self, program: Program, weights: Mapping[str, Floats]) -> None:
        self._program = program
        self._weights = dict(weights)
        self._groups = program.kv_groups
        self._caches = layer_caches(program)
        self._states = [np.zeros((0, size), np.float32) for size in program.state_sizes]

    def reserve(self, group: int, blocks: int) -> None:
        """Make room for at least so many KV blocks of a group of layers."""
        for layer in self._groups[group].layers:
            self._caches[layer].reserve(blocks)

    def copy_block(self, group: int, source: int, target: int) -> None:
        """Copy a KV block of a group, all its layers."""
        for layer in self._groups[group].layers:
            self._caches[layer].copy_block(source, target)

    def reserve_states(self, slots: int) -> None:
        """Make room for at least so many slots of states."""
        for layer, states in enumerate(self._states):
            more = np.zeros((max(slots - len(states), 0), states.shape[1]), np.float32)
            self._states[layer] = np.concatenate([states, more])

    def copy_state(self, source: int, target: int) -> None:
        """Copy a slot, all states."""
        for states in self._states:
            states[target] = states[source]

    def run(self, rows: Rows) -> Floats:
        """Compute float32 [outputs, vocab_size]; writes keys and values of all rows into the cache."""
        run = Run(rows, self._weights, self._caches, states=self._states)
        with np.errstate(all="ignore"):  # damaged weights give NaN, which whoever reads the logits reports
            for op in self._program.ops:
                execute(op, run)
        return run.buffers["logits"]

    def close(self) -> None:
        """Free the memory."""
        self._weights.clear()
        self._caches = ()


class ReferenceBackend:
    """Runs anywhere, slowly; the other backends are tested against it."""

    name = "reference"
    is_stand_in = False
    kv_types: tuple[KvType, ...] = (KvType.F32,)

    def describe(self) -> str:
        """Say which machine and numpy compute."""
        return f"{platform.machine()}, numpy {np.__version__}"

    def block_nbytes(self, program: Program, kv_type: KvType | None = None) -> int:
        """Return the bytes of one KV block of every group."""
        return sum(cache.block_nbytes for cache in layer_caches(program))

    def memory_needs(
        self,
        program: Program,
        tensors: Mapping[str, TensorInfo],
        threads: Threads = None,
        context_length: int | None = None,
    ) -> MemoryNeeds:
        """Say what a program would take: float32 for every weight, and for all buffers of a whole run."""
        values = sum(math.prod(tensors[name].shape) for name in program.tensors)
        rows = ReferenceRunner.max_rows
        return MemoryNeeds(4 * values, 4 * rows * sum(program.buffers.values()), rows)

    def load(
        self,
        program: Program,
        weights: Iterator[Weight],
        threads: Threads = None,
        progress: Progress | None = None,
        kv_type: KvType | None = None,
    ) -> ReferenceRunner:
        """Dequantise the weights that the program names; the number of threads is numpy's own affair."""
        kept = {}
        for weight in weights:
            if weight.info.name in program.tensors:
                kept[weight.info.name] = dequantize(weight.info.type, weight.data, weight.info.shape)
        for name, part in program.slices.items():
            if part.tensor in kept:
                kept[name] = _sliced(kept[part.tensor], part)
        return ReferenceRunner(program, kept)


def _sliced(values: Floats, part: TensorSlice) -> Floats:
    return values[..., part.first : part.last, :] if values.ndim > 1 else values[part.first : part.last]
