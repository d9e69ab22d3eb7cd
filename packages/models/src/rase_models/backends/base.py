"""The contract that a backend implements: run a Program on batches of rows over a paged KV cache."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rase_core.progress import Progress

from rase_models.gguf import TensorInfo, Weight
from rase_models.kv_type import KvType
from rase_models.program import Program

BLOCK_TOKENS = 64
"""Positions in one block of the KV cache, the same for every backend."""


@dataclass(frozen=True, slots=True)
class ThreadCounts:
    """How many threads compute; None leaves it to the backend.

    Attributes:
        decode: in runs that have one row of each sequence.
        prefill: in all others; None means as many as `decode` where that is given.
    """

    decode: int | None = None
    prefill: int | None = None


Threads: TypeAlias = int | ThreadCounts | None
"""A number of threads for everything, or one for each kind of run, or what the backend likes."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One run: row r is `tokens[r]` at `positions[r]` of the sequence with `block_tables[:, sequences[r]]`.

    Attributes:
        sequences: int32 [rows], which sequence of `block_tables`; the rows of a sequence are adjacent, their
            positions ascending by one.
        positions, tokens: int32 [rows].
        outputs: int32 [outputs], ascending indices of the rows whose logits are wanted; may be empty.
        block_tables: int32 [groups, sequences, blocks], a table of every sequence for each of the Program's
            `kv_groups`: position p of a sequence lives in block `table[p // BLOCK_TOKENS]` of the group; -1
            for blocks that have left the group's window, and past the last one of a sequence.
        states: int32 [sequences], the slot of each sequence's states; empty for a program without any. A run
            reads it unless the sequence's first row is at position 0, and leaves what is after its last row.
    """

    sequences: NDArray[np.int32]
    positions: NDArray[np.int32]
    tokens: NDArray[np.int32]
    outputs: NDArray[np.int32]
    block_tables: NDArray[np.int32]
    states: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))


class Runner(Protocol):
    """A Program with its weights on a device. Not thread-safe."""

    @property
    def max_rows(self) -> int:
        """The most rows of one run, and the most outputs."""

    @property
    def cheap_rows(self) -> int:
        """How many rows take hardly longer than one; 1 where the bits of one may depend on the others."""

    @property
    def threads(self) -> int | None:
        """The most threads that decode; None where that is not the backend's to say."""

    def reserve(self, group: int, blocks: int) -> None:
        """Make room for at least so many KV blocks of a group; the contents of earlier ones stay."""

    def copy_block(self, group: int, source: int, target: int) -> None:
        """Copy a KV block of a group, all its layers."""

    def run(self, rows: Rows) -> NDArray[np.float32]:
        """Compute float32 [outputs, vocab_size] and write the keys and values of all rows to the cache.

        The array belongs to the caller. There is at least one row, at most `max_rows`, and every token is
        inside the vocabulary.
        """

    def close(self) -> None:
        """Stop threads and free memory; the runner is unusable afterwards."""


class StatefulRunner(Runner, Protocol):
    """A runner of programs whose sequences keep states, in slots."""

    def reserve_states(self, slots: int) -> None:
        """Make room for at least so many slots; the contents of earlier ones stay."""

    def copy_state(self, source: int, target: int) -> None:
        """Copy a slot."""


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """Bytes that a Program takes on a device, apart from its KV blocks and states.

    Attributes:
        weights: as the backend keeps them.
        workspace: what runs compute in, at the longest context, and what is made for the Program.
        max_rows: the most rows of one run.
        free: what there is on a device with memory of its own, for these and for KV blocks and states.
    """

    weights: int
    workspace: int
    max_rows: int
    free: int | None = None


class Backend(Protocol):
    """A way to run Programs. `backends/__init__` names them all.

    Any method may raise BackendUnavailable, or what `library_faults` turns into that.

    Attributes:
        is_stand_in: whether something slower computes in place of the device, for tests; `auto` passes it by.
        kv_types: in which keys and values can be kept; the first unless another is asked for.
    """

    name: str
    is_stand_in: bool
    kv_types: tuple[KvType, ...]

    def describe(self) -> str:
        """Say in a few words what computes: the machine, its instructions, the number of threads."""

    def block_nbytes(self, program: Program, kv_type: KvType | None = None) -> int:
        """Return the bytes of one KV block of every group of a program; 0 when it keeps nothing."""

    def memory_needs(
        self,
        program: Program,
        tensors: Mapping[str, TensorInfo],
        threads: Threads = None,
        context_length: int | None = None,
    ) -> MemoryNeeds:
        """Say what a program would take, by the tensors of its file, without reading any of them."""

    def load(
        self,
        program: Program,
        weights: Iterator[Weight],
        threads: Threads = None,
        progress: Progress | None = None,
        kv_type: KvType | None = None,
    ) -> Runner:
        """Take the weights, in the file's order, and return a runner. Peak memory is about one copy of them.

        The iterator is read to its end. A weight's data is valid until the next one is taken, and weights
        that the program does not name (`program.tensors`) are skipped. `progress` hears of compiling.
        """
