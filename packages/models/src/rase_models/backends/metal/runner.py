"""Run Programs in MLX: a run is described op by op, then evaluated at once."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import Rows
from rase_models.backends.metal.cache import KV_DTYPES, LayerCache
from rase_models.backends.metal.device import MLX_ERRORS, Device, faults
from rase_models.backends.metal.matrices import Matrix, matrix_nbytes, matrix_of, sliced
from rase_models.backends.metal.ops import execute
from rase_models.backends.metal.run import Run, States
from rase_models.gguf import Weight
from rase_models.kv_type import KvType
from rase_models.program import Op, Program, SelectOutputs, tensors_of

MAX_ROWS = 512


class CachesLost(Exception):
    """Keys and values cannot be computed any more. No EngineError: the scheduler ends, and so the session."""


def device_weights(program: Program, weights: Iterator[Weight], device: Device) -> dict[str, Matrix]:
    """Put the weights that a program names on the device, parts of them under their own names.

    Raises DeviceOutOfMemory before they take more than the device should give.
    """
    named = {name for op in program.ops for name in tensors_of(op)}
    kept: dict[str, Matrix] = {}
    for weight in weights:
        name = weight.info.name
        if name in program.tensors:
            device.check_room(f"the weights of {name}", matrix_nbytes(weight.info, device))
            matrix = matrix_of(weight, device)
            kept |= {part: sliced(matrix, cut) for part, cut in program.slices.items() if cut.tensor == name}
            if name in named:
                kept[name] = matrix
    return kept


class MetalRunner:
    """A Program with its weights, caches and states in MLX's arrays."""

    max_rows = MAX_ROWS
    cheap_rows = 1
    threads = None

    def __init__(
        self, program: Program, weights: Mapping[str, Matrix], kv_type: KvType, device: Device
    ) -> None:
        self._program = program
        self._device = device
        self._weights = dict(weights)
        self._groups = program.kv_groups
        self._caches = _caches(program, KV_DTYPES[kv_type], device)
        self._states: States = [[] for _ in program.state_sizes]
        self._nothing = mx.zeros((0, program.vocab_size))
        mx.eval(self._nothing, *self._cached())  # another thread than this may run, which could not

    def reserve(self, group: int, blocks: int) -> None:
        """Make room for at least so many KV blocks of a group of layers. Raises DeviceOutOfMemory."""
        with faults():
            for layer in self._groups[group].layers:
                cache = self._caches[layer]
                self._device.check_room("keys and values of a layer", cache.growth_nbytes(blocks))
                cache.reserve(blocks)

    def copy_block(self, group: int, source: int, target: int) -> None:
        """Copy a KV block of a group, all its layers."""
        with faults():
            caches = [self._caches[layer] for layer in self._groups[group].layers]
            blocks = [cache.block(source) for cache in caches]
            mx.eval(blocks)  # while a block is a part of its cache, writing there would copy the whole cache
            for cache, block in zip(caches, blocks, strict=True):
                cache.put_block(target, *block)
            mx.eval(self._cached())  # arrays may be evaluated only by the thread that describes them

    def reserve_states(self, slots: int) -> None:
        """Make room for at least so many slots of states. Raises DeviceOutOfMemory."""
        with faults():
            more = slots - min(map(len, self._states))
            if more > 0:
                sizes = self._program.state_sizes
                self._device.check_room("states of sequences", more * 4 * sum(sizes))
                added = [[mx.zeros(size) for _ in range(more)] for size in sizes]
                mx.eval(added)
                self._states = [[*held, *new] for held, new in zip(self._states, added, strict=True)]

    def copy_state(self, source: int, target: int) -> None:
        """Copy a slot, all states."""
        for states in self._states:
            states[target] = states[source]

    def run(self, rows: Rows) -> NDArray[np.float32]:
        """Compute float32 [outputs, vocab_size]; writes keys and values of all rows.

        Raises DeviceOutOfMemory and BackendFailure, after which the caches can be used, else CachesLost.
        """
        with faults():
            return self._evaluated(self._described(rows), [int(slot) for slot in np.unique(rows.states)])

    def _described(self, rows: Rows) -> mx.array:
        """Describe a run and return its logits; after an error the caches and states are as before."""
        before = self._cached(), [list(states) for states in self._states]
        run = Run.of(rows, self._weights, self._caches, self._states)
        try:
            for op in self._wanted(rows):
                execute(op, run)
        except BaseException:
            self._restore(*before)
            raise
        return run.buffers.get("logits", self._nothing).astype(mx.float32)

    def _evaluated(self, logits: mx.array, slots: list[int]) -> NDArray[np.float32]:
        """Compute logits, caches and states. Nothing may hold the old arrays: MLX would copy them all."""
        try:
            mx.eval(logits, self._cached(), self._kept(slots))
        except MLX_ERRORS as error:
            del logits
            self._settle(error, slots)
            raise
        return np.array(logits, copy=True)

    def _settle(self, error: Exception, slots: list[int]) -> None:
        """Compute what a failed run left of caches and states, which later runs would build on."""
        mx.clear_cache()
        try:
            mx.eval(self._cached(), self._kept(slots))
        except MLX_ERRORS as again:
            raise CachesLost(f"{error}; again: {again}") from error

    def _cached(self) -> list[mx.array]:
        """Return the caches as they are now, whatever ops put in their places."""
        return [array[...] for cache in self._caches for array in (cache.keys, cache.values)]

    def _kept(self, slots: list[int]) -> list[mx.array]:
        """Return the states in some slots."""
        return [states[slot] for states in self._states for slot in slots]

    def _restore(self, cached: list[mx.array], states: States) -> None:
        left = iter(cached)
        for cache in self._caches:
            cache.keys, cache.values = next(left), next(left)
        self._states[:] = states

    def _wanted(self, rows: Rows) -> Iterable[Op]:
        """Return the ops of a run: without outputs those that fill the caches, which come first."""
        if len(rows.outputs) > 0:
            return self._program.ops
        return takewhile(lambda op: not isinstance(op, SelectOutputs), self._program.ops)

    def close(self) -> None:
        """Free the memory."""
        self._weights.clear()
        self._caches = ()
        self._states = []
        mx.clear_cache()


def _caches(program: Program, dtype: mx.Dtype, device: Device) -> tuple[LayerCache, ...]:
    groups = {layer: index for index, group in enumerate(program.kv_groups) for layer in group.layers}
    return tuple(
        LayerCache(layer, groups[index], dtype, device.attention(layer.key_length, layer.value_length, dtype))
        for index, layer in enumerate(program.kv_layers)
    )
