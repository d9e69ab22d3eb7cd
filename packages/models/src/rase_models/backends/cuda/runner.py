"""Run Programs on a CUDA device."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import DeviceLost

from rase_models.backends.base import Rows
from rase_models.backends.cuda.cache import attention_source, layer_caches, state_slots
from rase_models.backends.cuda.device import Device, Launch, Memory, Replay
from rase_models.backends.cuda.inputs import Inputs
from rase_models.backends.cuda.lowering import Constant, Run, constants_of, lowered
from rase_models.backends.cuda.matrices import Matrix, multiplied, put_matrix, with_slices
from rase_models.backends.cuda.workspace import SMALL, Workspace
from rase_models.gguf import Weight
from rase_models.kv_type import KvType
from rase_models.program import Program

MAX_ROWS = 1024
_MOST_RECORDED = 64


class CudaRunner:
    """A Program with its weights, caches and states on a device.

    Runs of few rows are recorded once (a CUDA graph) and replayed: nothing in them depends on tokens or
    positions, which are read from device memory. That the device is lost is told by `run` and `reserve`
    alone: who copies states is not prepared for it.
    """

    max_rows = MAX_ROWS
    cheap_rows = 1
    threads = None

    def __init__(self, device: Device, program: Program, weights: Iterator[Weight], kv_type: KvType) -> None:
        self._device, self._program = device, program
        self._memories: list[Memory] = []
        self._attention = attention_source(kv_type)
        self._groups = program.kv_groups
        self._recorded: dict[tuple[int, int, int], Replay] = {}
        self._loss: DeviceLost | None = None
        forget = self._recorded.clear  # what was recorded has the old addresses
        self._caches = layer_caches(device, program, kv_type, forget)
        self._states = state_slots(device, program, forget)
        self._workspace = Workspace(device, MAX_ROWS)
        self._inputs = Inputs(device, MAX_ROWS, forget)
        try:
            self._weights = self._put(weights)
            self._constants = self._put_constants()
            self._prepare()
        except BaseException:
            self._release()
            raise

    def _put(self, weights: Iterator[Weight]) -> Mapping[str, Matrix]:
        kept: dict[str, Matrix] = {}
        matrices = multiplied(self._program)
        for weight in weights:
            name = weight.info.name
            if name in self._program.tensors:
                kept[name], memory = put_matrix(self._device, weight, name in matrices)
                self._memories.append(memory)
        return with_slices(kept, self._program)

    def _put_constants(self) -> Mapping[Constant, int]:
        constants = constants_of(self._program)
        return {(kind, values): self._constant(np.array(values, kind)) for kind, values in constants}

    def _constant(self, values: NDArray[np.floating]) -> int:
        memory = self._device.allocate(values.nbytes)
        self._memories.append(memory)
        self._device.write(memory.address, values)
        return memory.address

    def _prepare(self) -> None:
        """Load the kernels of runs and take their memory, so that want of either shows before requests.

        One row of logits is wanted here; what more than SMALL need is taken by the first such run.
        """
        for rows in (SMALL, MAX_ROWS):
            commands = lowered(self._run((rows, 1, 1)))
            self._device.prepare(dict.fromkeys(item.source for item in commands if isinstance(item, Launch)))

    def reserve(self, group: int, blocks: int) -> None:
        """Make room for at least so many KV blocks of a group of layers. Raises DeviceOutOfMemory."""
        for layer in self._groups[group].layers:
            self._caches[layer].reserve(blocks)

    def copy_block(self, group: int, source: int, target: int) -> None:
        """Copy a KV block of a group, all its layers."""
        for layer in self._groups[group].layers:
            self._caches[layer].copy_block(source, target)

    def reserve_states(self, slots: int) -> None:
        """Make room for at least so many slots of states. Raises DeviceOutOfMemory."""
        with self._noting_loss():
            for states in self._states:
                states.reserve(slots)

    def copy_state(self, source: int, target: int) -> None:
        """Copy a slot, all states."""
        with self._noting_loss():
            for states in self._states:
                states.copy(source, target)

    def run(self, rows: Rows) -> NDArray[np.float32]:
        """Compute float32 [outputs, vocab_size]; writes keys and values of all rows.

        Raises DeviceOutOfMemory, DeviceLost, and BackendFailure when the device fails otherwise.
        """
        if self._loss is not None:
            raise self._loss
        self._inputs.write(rows)
        key = (len(rows.tokens), len(rows.outputs), rows.block_tables.shape[1])
        if len(rows.tokens) <= SMALL:
            self._replay(key)()
        else:
            self._device.execute(lowered(self._run(key)))
        logits = np.empty((len(rows.outputs), self._program.vocab_size), np.float32)
        if logits.size:
            self._device.read(self._logits(len(rows.outputs)), logits)
        return logits

    def _logits(self, outputs: int) -> int:
        return self._workspace.rows("logits", outputs, 4 * self._program.vocab_size)

    def _replay(self, key: tuple[int, int, int]) -> Replay:
        if key not in self._recorded:
            if len(self._recorded) >= _MOST_RECORDED:
                self._recorded.clear()
            launches = cast(list[Launch], lowered(self._run(key)))
            self._recorded[key] = self._device.record(launches)
        return self._recorded[key]

    def _run(self, key: tuple[int, int, int]) -> Run:
        rows, outputs, sequences = key
        return Run(
            self._program,
            self._weights,
            self._caches,
            self._states,
            self._inputs,
            self._workspace,
            self._constants,
            self._attention,
            rows,
            outputs,
            sequences,
        )

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        """Keep the loss of the device for the next run."""
        try:
            yield
        except DeviceLost as error:
            self._loss = error

    def close(self) -> None:
        """Free the memory."""
        self._release()

    def _release(self) -> None:
        self._recorded.clear()
        self._inputs.close()
        self._workspace.close()
        for cache in self._caches:
            cache.close()
        for states in self._states:
            states.close()
        for memory in self._memories:
            self._device.release(memory)
        self._memories.clear()
