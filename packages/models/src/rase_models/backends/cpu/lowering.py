"""Turns the steps of a Program into the rows of an op table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from rase_core.errors import BackendFailure

from rase_models.backends.cpu import abi, shapes
from rase_models.backends.cpu.arena import Arena
from rase_models.backends.cpu.buffers import Buffers, padded
from rase_models.backends.cpu.fusion import fuse
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.op_table import Resource, Row, place_waits
from rase_models.backends.cpu.steps import (
    AddLinear,
    GatedLinear,
    NormAdd,
    Preparation,
    PreparedAttention,
    Step,
    reads,
    written,
)
from rase_models.backends.cpu.weights import Matrix, Weights
from rase_models.program import (
    Add,
    Attention,
    Embed,
    GatedActivation,
    KvLayer,
    Linear,
    Program,
    RmsNorm,
    Rope,
    RopePairing,
    Rotate,
    SelectOutputs,
)

Words = dict[int, int | float]


@dataclass(slots=True)
class Lowered:
    """A Program as rows.

    Attributes:
        rope_rows: for each row with a rope table, its index and the rope; the table's address is set later.
        scratch_nbytes, private_nbytes: memory that each thread needs.
        block_nbytes: size of a KV block.
        value_length: the longest value of an attention head, 0 without attention.
        logits_stride: bytes between rows of logits.
    """

    rows: list[Row] = field(default_factory=list)
    rope_rows: list[tuple[int, Rope]] = field(default_factory=list)
    scratch_nbytes: int = 0
    private_nbytes: int = 0
    block_nbytes: int = 0
    value_length: int = 0
    logits_stride: int = 0


def lower(program: Program, weights: Weights, max_rows: int, arena: Arena, *, fused: bool = True) -> Lowered:
    """Return the op table's rows. Unfused, every op of the Program is executed on its own; the bits are the
    same.
    """
    steps: tuple[Step, ...] = fuse(program.ops, weights.have_same_form) if fused else program.ops
    return _Lowering(program, weights, max_rows, arena, steps).run()


class _Lowering:
    def __init__(
        self, program: Program, weights: Weights, max_rows: int, arena: Arena, steps: Sequence[Step]
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
        self.layer_offsets = _layer_offsets(program.kv_layers)
        self.selected: set[str] = set()
        self.private: dict[str, str] = {}
        self.tile_tables: dict[tuple[int, int], int] = {}
        self.index = 0

    def run(self) -> Lowered:
        """Emit all steps."""
        lowered = self.lowered
        lowered.block_nbytes = self.layer_offsets[-1]
        lowered.scratch_nbytes = shapes.linear_scratch_nbytes()
        for index, step in enumerate(self.steps):
            self.index = index
            self._note_selection(step)
            _EMITTERS[type(step)](self, step)
        lowered.private_nbytes = self.buffers.private_nbytes
        place_waits(lowered.rows)
        return lowered

    # Rows and their places.

    def _note_selection(self, step: Step) -> None:
        """Keep track of the buffers that hold only the rows whose logits are wanted."""
        chosen = isinstance(step, SelectOutputs) or any(name in self.selected for name in reads(step))
        (self.selected.add if chosen else self.selected.discard)(written(step))

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

    def need_scratch(self, nbytes: int) -> None:
        """Make sure that every thread has so much scratch memory."""
        self.lowered.scratch_nbytes = max(self.lowered.scratch_nbytes, nbytes)

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
                as_records = self._reads_records(step, name)
                records, floats = records or as_records, floats or not as_records
            if written(step) == name and name not in reads(step):
                break
        return floats or not records, records

    def _reads_records(self, step: Step, name: str) -> bool:
        if isinstance(step, Linear | AddLinear) and step.x == name:
            if isinstance(step, AddLinear) and step.out == name:
                return False
            return self.matrix(step.weight).form.is_quantised
        return isinstance(step, GatedLinear) and self.matrix(step.gate).form.is_quantised

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


def _layer_offsets(layers: Sequence[KvLayer]) -> list[int]:
    """Return where each layer begins in a KV block, and last the size of a block."""
    sizes = [
        layer.head_count_kv * shapes.kv_head_nbytes(layer.key_length, layer.value_length) for layer in layers
    ]
    return [0, *np.cumsum(sizes, dtype=np.int64).tolist()]


def _embed(low: _Lowering, step: Embed) -> None:
    matrix = low.matrix(step.weight)
    words, writes, flags = low.values_out(step.out)
    words |= {abi.W: matrix.address, abi.K: matrix.columns, abi.SCALE: step.scale}
    low.need_scratch(4 * padded(matrix.columns))
    low.emit(KernelKey("embed", (matrix.form.name,)), words, [], writes, flags)


def _norm_words(low: _Lowering, x: str, weight: str, eps: float, heads: int) -> Words:
    width = low.buffers.width(x) // heads
    if heads > 1 and width % 16 != 0:
        raise BackendFailure(
            f"the CPU backend cannot norm heads of {width} values", "it needs multiples of 16"
        )
    low.need_scratch(4 * padded(width))
    words = {abi.W: low.vector(weight), abi.K: width, abi.EPSILON: eps, abi.HEADS: heads}
    return low.floats_in(x) | words


def _rms_norm(low: _Lowering, step: RmsNorm) -> None:
    words = _norm_words(low, step.x, step.weight, step.eps, step.heads)
    in_parts = step.heads > 1
    if in_parts and (low.buffers.width(step.x) // step.heads) % 32 != 0:
        outputs, flags = low.floats_out(step.out)
        outputs[abi.N] = low.buffers.width(step.out)
        low.emit(
            KernelKey("rms_norm"),
            words | outputs,
            [("floats", step.x)],
            [("floats", step.out)],
            flags | abi.WRITE_FLOATS,
        )
        low.quantise_if_wanted(step.out)
        return
    source = None if in_parts else step.x
    outputs, writes, flags = low.values_out(step.out, source=source)
    low.emit(KernelKey("rms_norm"), words | outputs, [("floats", step.x)], writes, flags)


def _norm_add(low: _Lowering, step: NormAdd) -> None:
    words = _norm_words(low, step.x, step.weight, step.eps, 1)
    outputs, flags = low.floats_out(step.out)
    reads: list[Resource] = [("floats", step.x), ("floats", step.out)]
    low.emit(KernelKey("rms_norm"), words | outputs, reads, [("floats", step.out)], flags | abi.ACCUMULATE)
    low.quantise_if_wanted(step.out)


def _multiply(low: _Lowering, step: Linear | AddLinear, words: Words, accumulate: bool) -> None:
    matrix = low.matrix(step.weight)
    inputs, reads, input_flags = low.matrix_input(step.x, step.weight)
    outputs, output_flags = low.floats_out(step.out)
    words |= inputs | outputs | {abi.W: matrix.address, abi.K: matrix.columns, abi.N: matrix.rows}
    flags = input_flags | output_flags
    if accumulate:
        flags |= abi.ACCUMULATE
        reads = [*reads, ("floats", step.out)]
    key = KernelKey("linear", (matrix.form.name,))
    low.emit(key, words, reads, [("floats", step.out)], flags)
    low.quantise_if_wanted(step.out)


def _linear(low: _Lowering, step: Linear) -> None:
    words: Words = {abi.SCALE: step.scale, abi.BIAS: 0}
    if step.bias is not None:
        words[abi.BIAS] = _scaled_bias(low, step.bias, step.bias_scale)
    _multiply(low, step, words, accumulate=False)


def _add_linear(low: _Lowering, step: AddLinear) -> None:
    bias = low.vector(step.bias) if step.bias is not None else 0
    _multiply(low, step, {abi.SCALE: 1.0, abi.BIAS: bias}, accumulate=True)


def _scaled_bias(low: _Lowering, name: str, scale: float) -> int:
    if scale == 1.0:
        return low.vector(name)
    bias = low.weights.vectors[name]
    scaled = low.arena.take(bias.nbytes).view(np.float32)
    np.multiply(bias, np.float32(scale), out=scaled)
    return int(scaled.ctypes.data)


def _gated_linear(low: _Lowering, step: GatedLinear) -> None:
    gate, up = low.matrix(step.gate), low.matrix(step.up)
    inputs, reads, input_flags = low.matrix_input(step.x, step.gate)
    outputs, writes, flags = low.values_out(step.out)
    if abi.RECORDS in outputs:
        outputs[abi.OUTPUT_RECORDS] = outputs.pop(abi.RECORDS)
        outputs.pop(abi.PRIVATE_OFFSET)
    words = (
        inputs | outputs | {abi.W: gate.address, abi.W2: up.address, abi.K: gate.columns, abi.N: gate.rows}
    )
    key = KernelKey("gated_linear", (gate.form.name, step.activation.value))
    low.emit(key, words, reads, writes, flags | input_flags)


def _gated_activation(low: _Lowering, step: GatedActivation) -> None:
    words = low.floats_in(step.gate) | low.floats_in(step.up, abi.W, abi.W_STRIDE)
    outputs, writes, flags = low.values_out(step.out)
    reads: list[Resource] = [("floats", step.gate), ("floats", step.up)]
    low.emit(KernelKey("gated_activation", (step.activation.value,)), words | outputs, reads, writes, flags)


def _add(low: _Lowering, step: Add) -> None:
    words = low.floats_in(step.x) | low.floats_in(step.y, abi.W, abi.W_STRIDE)
    outputs, flags = low.floats_out(step.out)
    words |= outputs | {abi.N: low.buffers.width(step.out)}
    reads: list[Resource] = [("floats", step.x), ("floats", step.y)]
    low.emit(KernelKey("add_rows"), words, reads, [("floats", step.out)], flags)
    low.quantise_if_wanted(step.out)


def _select(low: _Lowering, step: SelectOutputs) -> None:
    outputs, writes, flags = low.values_out(step.out, source=step.x)
    low.emit(
        KernelKey("copy_rows"),
        low.floats_in(step.x) | outputs,
        [("floats", step.x)],
        writes,
        flags | abi.GATHER,
    )


def _rope_words(rope: Rope) -> Words:
    return {
        abi.ROPE_DIMENSIONS: rope.dimensions,
        abi.ROPE_HALVES: int(rope.pairing is RopePairing.HALVES),
    }


def _rotate(low: _Lowering, step: Rotate) -> None:
    length = low.buffers.width(step.x) // step.heads
    words = low.floats_in(step.x) | _rope_words(step.rope) | {abi.HEADS: step.heads, abi.K: length}
    floats: list[Resource] = [("floats", step.x)]
    index = low.emit(KernelKey("rotate"), words, floats, floats)
    low.lowered.rope_rows.append((index, step.rope))
    low.quantise_if_wanted(step.x)


def _cache_words(low: _Lowering, step: Attention) -> Words:
    return {
        abi.HEADS: step.head_count,
        abi.KV_HEADS: step.head_count_kv,
        abi.KEY_LENGTH: step.key_length,
        abi.VALUE_LENGTH: step.value_length,
        abi.KV_OFFSET: low.layer_offsets[step.layer],
    }


def _attention(low: _Lowering, step: Attention) -> None:
    words = _cache_words(low, step) | low.floats_in(step.k) | low.floats_in(step.v, abi.V, abi.V_STRIDE)
    reads: list[Resource] = [("floats", step.k), ("floats", step.v)]
    low.emit(KernelKey("store_kv"), words, reads, [("cache", step.layer)])
    _attend(low, step)


def _prepared_attention(low: _Lowering, step: PreparedAttention) -> None:
    attention = step.attention
    words = _cache_words(low, attention) | low.floats_in(attention.k)
    words |= low.floats_in(attention.q, abi.Q, abi.Q_STRIDE) | low.floats_in(attention.v, abi.V, abi.V_STRIDE)
    words |= _preparation_words(low, step.queries, abi.Q_NORM) | _preparation_words(
        low, step.keys, abi.K_NORM
    )
    q_and_k: list[Resource] = [("floats", attention.q), ("floats", attention.k)]
    writes: list[Resource] = [*q_and_k, ("cache", attention.layer)]
    index = low.emit(KernelKey("prepare_heads"), words, [*q_and_k, ("floats", attention.v)], writes)
    if step.queries.rope is not None:
        low.lowered.rope_rows.append((index, step.queries.rope))
    _attend(low, attention)


def _preparation_words(low: _Lowering, preparation: Preparation, norm: int) -> Words:
    words: Words = {norm: 0, abi.ROPE_DIMENSIONS: 0}
    if preparation.rope is not None:
        words |= _rope_words(preparation.rope)
    if preparation.norm is not None:
        words |= {norm: low.vector(preparation.norm.weight), abi.EPSILON: preparation.norm.eps}
    return words


def _attend(low: _Lowering, step: Attention) -> None:
    _check_lengths(step)
    low.need_scratch(shapes.attention_scratch_nbytes(step.value_length))
    low.lowered.value_length = max(low.lowered.value_length, step.value_length)
    table, words = _tile_table(low, step), _cache_words(low, step)
    words |= {abi.TILES: table, abi.WINDOW: step.window or 0, abi.SCALE: step.scale}
    words |= low.floats_in(step.q, abi.Q, abi.Q_STRIDE)
    reads: list[Resource] = [("floats", step.q), ("cache", step.layer), ("tiles", table)]
    whole_records = step.value_length % 32 == 0
    if whole_records:
        outputs, writes, flags = low.values_out(step.out)
    else:
        outputs, flags = low.floats_out(step.out)
        writes, flags = [("floats", step.out)], flags | abi.WRITE_FLOATS
    words |= outputs
    low.emit(KernelKey("attend"), words, reads, [*writes, ("spans", None)], flags)
    low.emit(
        KernelKey("merge_spans"),
        words,
        [("spans", None), ("tiles", table)],
        [*writes, ("spans", None)],
        flags,
    )
    if not whole_records:
        low.quantise_if_wanted(step.out)


def _check_lengths(step: Attention) -> None:
    for length in (step.key_length, step.value_length):
        if length % 16 != 0:
            raise BackendFailure(
                f"the CPU backend cannot attend with heads of {length} values", "it needs multiples of 16"
            )


def _tile_table(low: _Lowering, step: Attention) -> int:
    """Return the address of the table of query tiles, which the first ops of a program make."""
    group = step.head_count // step.head_count_kv
    key = (step.head_count, step.head_count_kv)
    if key not in low.tile_tables:
        address = int(low.arena.take(shapes.tile_table_nbytes(low.max_rows, group)).ctypes.data)
        low.tile_tables[key] = address
        words: Words = {abi.TILES: address, abi.HEADS: step.head_count, abi.KV_HEADS: step.head_count_kv}
        low.lowered.rows.append(
            Row(KernelKey("cut_queries"), words, 0, frozenset(), frozenset({("tiles", address)}))
        )
    return low.tile_tables[key]


_EMITTERS: Mapping[type, Callable[..., None]] = {
    Add: _add,
    AddLinear: _add_linear,
    Attention: _attention,
    Embed: _embed,
    GatedActivation: _gated_activation,
    GatedLinear: _gated_linear,
    Linear: _linear,
    NormAdd: _norm_add,
    PreparedAttention: _prepared_attention,
    RmsNorm: _rms_norm,
    Rotate: _rotate,
    SelectOutputs: _select,
}
