"""Run Programs in MLX: a run is described op by op, then evaluated at once."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import Rows
from rase_models.backends.metal.cache import KV_DTYPES, LayerCache
from rase_models.backends.metal.device import Device, faults
from rase_models.backends.metal.matrices import Matrix, matrix_nbytes, matrix_of, sliced
from rase_models.backends.metal.ops import execute
from rase_models.backends.metal.run import Run
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
    threads = None

    def __init__(
        self, program: Program, weights: Mapping[str, Matrix], kv_type: KvType, device: Device
    ) -> None:
        self._program = program
        self._device = device
        self._weights = dict(weights)
        self._groups = program.kv_groups
        self._caches = _caches(program, KV_DTYPES[kv_type])
        self._states = [mx.zeros((0, size)) for size in program.state_sizes]
        self._nothing = mx.zeros((0, program.vocab_size))
        mx.eval(self._nothing, *self._kept())  # another thread than this may run, which could not

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
            for layer in self._groups[group].layers:
                self._caches[layer].copy_block(source, target)

    def reserve_states(self, slots: int) -> None:
        """Make room for at least so many slots of states. Raises DeviceOutOfMemory."""
        with faults():
            for layer, states in enumerate(self._states):
                more = mx.zeros((max(slots - states.shape[0], 0), states.shape[1]))
                self._states[layer] = mx.concatenate([states, more])
            mx.eval(*self._states)

    def copy_state(self, source: int, target: int) -> None:
        """Copy a slot, all states."""
        with faults():
            for states in self._states:
                states[target] = states[source]
            mx.eval(*self._states)

    def run(self, rows: Rows) -> NDArray[np.float32]:
        """Compute float32 [outputs, vocab_size]; writes keys and values of all rows.

        Raises DeviceOutOfMemory and BackendFailure, after which the caches can be used, else CachesLost.
        """
        with faults():
            return self._evaluated(self._described(rows))

    def _described(self, rows: Rows) -> mx.array:
        """Describe a run and return its logits; after an error the caches and states are as before."""
        before = self._kept()
        run = Run.of(rows, self._weights, self._caches, self._states)
        try:
            for op in self._wanted(rows):
                execute(op, run)
        except BaseException:
            self._restore(before)
            raise
        return run.buffers.get("logits", self._nothing).astype(mx.float32)

    def _evaluated(self, logits: mx.array) -> NDArray[np.float32]:
        """Compute logits, caches and states. Nothing may hold the old arrays: MLX would copy them all."""
        try:
            mx.eval(logits, *self._kept())
        except RuntimeError as error:
            del logits
            self._settle(error)
            raise
        return np.array(logits, copy=True)

    def _settle(self, error: RuntimeError) -> None:
        """Compute what a failed run left of caches and states, which later runs would build on."""
        mx.clear_cache()
        try:
            mx.eval(*self._kept())
        except RuntimeError as again:
            raise CachesLost(f"{error}; again: {again}") from error

    def _kept(self) -> list[mx.array]:
        """Return caches and states as they are now, whatever ops put in their places."""
        arrays = [array for cache in self._caches for array in (cache.keys, cache.values)]
        return [array[...] for array in (*arrays, *self._states)]

    def _restore(self, arrays: list[mx.array]) -> None:
        left = iter(arrays)
        for cache in self._caches:
            cache.keys, cache.values = next(left), next(left)
        self._states[:] = left

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


def _caches(program: Program, dtype: mx.Dtype) -> tuple[LayerCache, ...]:
    groups = {layer: index for index, group in enumerate(program.kv_groups) for layer in group.layers}
    return tuple(LayerCache(layer, groups[index], dtype) for index, layer in enumerate(program.kv_layers))
