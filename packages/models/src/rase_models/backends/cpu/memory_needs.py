"""What a Program takes on the CPU: counted from the tensor table, without weights and without kernels."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import MemoryNeeds, Threads
from rase_models.backends.cpu import shapes
from rase_models.backends.cpu.arena import CACHE_LINE, Arena
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS
from rase_models.backends.cpu.lowering import lower
from rase_models.backends.cpu.run_memory import GROWTH, MAX_ROWS
from rase_models.backends.cpu.thread_count import thread_counts
from rase_models.backends.cpu.weights import (
    Weights,
    matrix_names,
    packing_of,
    slice_matrix,
    vector_names,
    whole_tensors,
)
from rase_models.gguf import TensorInfo
from rase_models.program import Program, Rope

CODE_NBYTES = 20_000_000
"""Linked kernels, threads and the libraries behind them; measured, and much the same for every model."""


class CountingArena(Arena):
    """Counts what is taken of it."""

    def __init__(self) -> None:
        super().__init__()
        self.nbytes = 0

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """Return zeroed memory, which costs nothing until it is written to."""
        self.nbytes += -(-nbytes // CACHE_LINE) * CACHE_LINE
        return super().take(nbytes)


def memory_needs(
    program: Program, tensors: Mapping[str, TensorInfo], threads: Threads, context_length: int
) -> MemoryNeeds:
    """Lower the program over weights that are not there, and count the memory that it asks for."""
    arena = CountingArena()
    weights, nbytes = _absent_weights(program, tensors)
    lowered = lower(program, weights, MAX_ROWS, arena)
    own = lowered.scratch_nbytes + lowered.private_nbytes
    ropes = sum(_rope_nbytes(rope, context_length) for rope in {rope for _, rope in lowered.rope_rows})
    most = max(thread_counts(threads))
    partials = GROWTH * shapes.partials_nbytes(most, context_length, lowered.value_length)
    workspace = arena.nbytes + most * own + partials + ropes + CODE_NBYTES
    return MemoryNeeds(nbytes, workspace, MAX_ROWS)


def _rope_nbytes(rope: Rope, positions: int) -> int:
    return 8 * len(rope.frequencies) * (1 << (positions - 1).bit_length())


def _absent_weights(program: Program, tensors: Mapping[str, TensorInfo]) -> tuple[Weights, int]:
    """Return weights of the right shapes without contents, and the bytes that they would take."""
    slices = program.slices
    packings = {name: packing_of(tensors[name]) for name in whole_tensors(matrix_names(program.ops), slices)}
    matrices = {name: packing.at(0) for name, packing in packings.items()}
    vectors = {
        name: np.zeros(tensors[name].shape, np.float32)
        for name in whole_tensors(vector_names(program.ops), slices)
    }
    nbytes = sum(packing.nbytes for packing in packings.values())
    for name, part in slices.items():
        if part.tensor in matrices:
            matrices[name] = slice_matrix(matrices[part.tensor], part)
        if part.tensor in vectors:
            vectors[name] = vectors[part.tensor][part.first : part.last]
    nbytes += sum(4 * -(-vector.size // GROUP_ROWS) * GROUP_ROWS for vector in vectors.values())
    return Weights(matrices, vectors), nbytes
