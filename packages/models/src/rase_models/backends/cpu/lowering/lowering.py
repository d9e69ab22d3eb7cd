"""The state of a lowering: where buffers lie, which forms they are needed in, and the rows so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from rase_core.errors import BackendFailure

from rase_models.backends.cpu import abi, shapes
from rase_models.backends.cpu.arena import Arena
from rase_models.backends.cpu.buffers import Buffers, padded
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.lowering.expert_memory import (
    ExpertMemory,
    ExpertSizes,
    make_expert_memory,
)
from rase_models.backends.cpu.lowering.kv_places import KvPlaces
from rase_models.backends.cpu.op_table import Resource, Row
from rase_models.backends.cpu.steps import AddLinear, GatedLinear, Step, reads, written
from rase_models.backends.cpu.weights import Matrix, Weights
from rase_models.program import HeadLinear, Linear, MoeFfn, Program, Rope, SelectOutputs

Words = dict[int, int | float]


@dataclass(slots=True)
class Lowered:
    """A Program as rows.

    Attributes:
        rope_rows: for each row with a rope table, its index and the rope; the table's address is set later.
        scratch_nbytes, private_nbytes: memory that each thread needs.
        block_nbytes: size of a KV block, of each group of layers.
        state_nbytes: size of a slot of states, 0 without any.
        value_length: the longest value of an attention head, 0 without attention.
        logits_stride: bytes between rows of logits.
    """

    rows: list[Row] = field(default_factory=list)
    rope_rows: list[tuple[int, Rope]] = field(default_factory=list)
    scratch_nbytes: int = 0
    private_nbytes: int = 0
    block_nbytes: tuple[int, ...] = ()
    state_nbytes: int = 0
    value_length: int = 0
    logits_stride: int = 0


class Lowering:
    """One Program on its way to rows; emitters of steps call its methods."""

    def __init__(
        self,
        program: Program,
        weights: Weights,
        max_rows: int,
        arena: Arena,
        steps: Sequence[Step],
        kv_places: KvPlaces,
    ) -> None:
        self.program, self.weights, self.max_rows, self.arena, self.steps = (
            program,
            weights,
            max_rows,
            arena,
            steps,
        )
        self.buffers = Buffers(program.buffers, max_rows, arena)
        self.lowered = Lowered(logits_stride=4 * padded(program.vocab_size))
        self.kv_places = kv_places
        self.selected: set[str] = set()
        self.private: dict[str, str] = {}
        self.tile_tables: dict[tuple[int, int], int] = {}
        self.expert_memories: dict[ExpertSizes, ExpertMemory] = {}
        self.ones: dict[int, int] = {}
        self.index = 0

    def begin(self, index: int) -> None:
        """Go on to a step, and keep track of the buffers that hold only the rows whose logits are wanted."""
        self.index, step = index, self.steps[index]
        chosen = isinstance(step, SelectOutputs) or any(name in self.selected for name in reads(step))
        (self.selected.add if chosen else self.selected.discard)(written(step))

    def finish(self) -> Lowered:
        """Return the rows, with the memory they need."""
        if "logits" not in self.selected:
            raise BackendFailure(
                "a Program must select the rows whose logits are wanted before it computes them"
            )
        self.lowered.block_nbytes = self.kv_places.block_nbytes
        self.lowered.private_nbytes = self.buffers.private_nbytes
        self.need_scratch(shapes.linear_scratch_nbytes())
        return self.lowered

    # Rows and their places.

    def emit(
        self,
        kernel: KernelKey,
        words: Words,
        reads: Sequence[Resource],
        writes: Sequence[Resource],
        flags: int = 0,
    ) -> int:
        """Append a row for the current step; returns its index."""
        if written(self.steps[self.index]) in self.selected:
            flags |= abi.OUTPUT_ROWS
        self.lowered.rows.append(Row(kernel, words, flags, frozenset(reads), frozenset(writes)))
        return len(self.lowered.rows) - 1

    def matrix(self, name: str) -> Matrix:
        """Return a packed matrix."""
        return self.weights.matrices[name]

    def vector(self, name: str) -> int:
        """Return the address of a vector."""
        return int(self.weights.vectors[name].ctypes.data)

    def constants(self, values: Sequence[float]) -> int:
        """Place float32 values in memory; returns their address, 0 for none."""
        if not values:
            return 0
        memory = self.arena.take(4 * len(values)).view(np.float32)
        memory[: len(values)] = values
        return int(memory.ctypes.data)

    def norm_weight(self, name: str | None, width: int) -> int:
        """Return the address of the weight of a norm, of ones where it has none."""
        if name is not None:
            return self.vector(name)
        if width not in self.ones:
            self.ones[width] = self.constants((1.0,) * padded(width))
        return self.ones[width]

    def need_scratch(self, nbytes: int) -> None:
        """Make sure that every thread has so much scratch memory."""
        self.lowered.scratch_nbytes = max(self.lowered.scratch_nbytes, nbytes)

    def expert_memory(self, step: MoeFfn) -> ExpertMemory:
        """Return the memory for layers of experts like this one, made once."""
        gate, down = self.matrix(step.gate), self.matrix(step.down)
        sizes = ExpertSizes(step.experts, step.experts_used, gate.columns, gate.rows, down.rows)
        if sizes not in self.expert_memories:
            self.expert_memories[sizes] = make_expert_memory(sizes, self.max_rows, self.arena)
        return self.expert_memories[sizes]

    def take_state(self, values: int) -> int:
        """Return where a state of so many float32 begins in a slot."""
        offset = self.lowered.state_nbytes
        self.lowered.state_nbytes += -(-4 * values // 64) * 64
        return offset

    # Inputs and outputs.

    def floats_in(self, name: str, x: int = abi.X, stride: int = abi.X_STRIDE) -> Words:
        """Return the words for float32 input."""
        floats = self.buffers.floats(name)
        return {x: floats.address, stride: floats.stride}

    def floats_out(self, name: str) -> tuple[Words, int]:
        """Return the words and flags for float32 output; logits go where the run wants them."""
        if name == "logits":
            return {abi.Y: 0, abi.Y_STRIDE: self.lowered.logits_stride}, abi.LOGITS
        floats = self.buffers.floats(name)
        return {abi.Y: floats.address, abi.Y_STRIDE: floats.stride}, 0

    def matrix_input(self, name: str, weight: str) -> tuple[Words, list[Resource], int]:
        """Return words, reads and flags for the input of a multiplication."""
        if not self.matrix(weight).form.is_quantised:
            return self.floats_in(name), [("floats", name)], 0
        records = self.buffers.records(name)
        words: Words = {abi.RECORDS: records.address, abi.PRIVATE_OFFSET: records.private_offset}
        if name in self.private:
            return words, [("records", name), ("floats", self.private[name])], abi.PRIVATE
        return words, [("records", name)], 0

    def wants(self, name: str) -> tuple[bool, bool]:
        """Say whether what the current step writes is read later as float32, and as records."""
        floats = records = False
        for step in self.steps[self.index + 1 :]:
            if name in reads(step):
                as_floats, as_records = self._forms_read(step, name)
                floats, records = floats or as_floats, records or as_records
            if written(step) == name and name not in reads(step):
                break
        return floats or not records, records

    def _forms_read(self, step: Step, name: str) -> tuple[bool, bool]:
        """Say whether a step reads one of its inputs as float32, and as records."""
        weight = _multiplied_by(step, name)
        records = weight is not None and self.matrix(weight).form.is_quantised
        adds_to_it = isinstance(step, AddLinear) and step.out == name
        return not records or adds_to_it or isinstance(step, MoeFfn), records

    def values_out(self, name: str, *, source: str | None = None) -> tuple[Words, list[Resource], int]:
        """Return words, writes and flags for a kernel that can write float32, records or both.

        With a `source`, the input of an op on one row, records alone are each thread's own.
        """
        floats, records = self.wants(name)
        words: Words = {abi.N: self.buffers.width(name)}
        writes: list[Resource] = []
        flags = 0
        if floats:
            float_words, flags = self.floats_out(name)
            words |= float_words
            flags |= abi.WRITE_FLOATS
            writes.append(("floats", name))
        if records:
            place = self.buffers.records(name)
            words |= {abi.RECORDS: place.address, abi.PRIVATE_OFFSET: place.private_offset}
            flags |= abi.WRITE_RECORDS
            writes.append(("records", name))
        self.private.pop(name, None)
        if source is not None and records and not floats:
            self.private[name] = source
            flags |= abi.PRIVATE | abi.REPLICATED
        return words, writes, flags

    def quantise_if_wanted(self, name: str) -> None:
        """Emit the records of a buffer whose float32 rows the current step has written."""
        _, records = self.wants(name)
        if not records:
            return
        place = self.buffers.records(name)
        words = self.floats_in(name) | {
            abi.N: self.buffers.width(name),
            abi.RECORDS: place.address,
            abi.PRIVATE_OFFSET: place.private_offset,
        }
        self.private[name] = name
        flags = abi.WRITE_RECORDS | abi.PRIVATE | abi.REPLICATED
        self.emit(KernelKey("copy_rows"), words, [("floats", name)], [("records", name)], flags)


def _multiplied_by(step: Step, name: str) -> str | None:
    """Return the matrix that a step multiplies an input by, as `matrix_input` gives it; None without one."""
    if isinstance(step, Linear | AddLinear | HeadLinear) and step.x == name:
        return step.weight
    if isinstance(step, GatedLinear):
        return step.gate
    return step.router if isinstance(step, MoeFfn) and name == (step.router_x or step.x) else None
