"""The contracts between the engine and whatever computes logits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]


class ModelLimits(Protocol):
    """What an answer must know of the decoder."""

    @property
    def eos_tokens(self) -> frozenset[int]:
        """Every token that ends a generation."""

    @property
    def context_length(self) -> int:
        """The most tokens that prompt and answer may have together."""

    @property
    def vocab_size(self) -> int:
        """The length of a row of logits."""


@runtime_checkable
class TokenDecoder(ModelLimits, Protocol):
    """One sequence, one token at a time."""

    def prefill(self, tokens: Sequence[int]) -> Logits:
        """Start over with this prompt; return the logits after its last token, float32 [vocab]."""

    def decode(self, token: int) -> Logits:
        """Append one token; return the logits after it, float32 [vocab]."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one step: a token of a sequence at a position each; those of a sequence adjacent, in order.

    All arrays are int32. `outputs` holds the indices of the rows whose logits are wanted, ascending.
    """

    sequences: NDArray[np.int32]
    positions: NDArray[np.int32]
    tokens: NDArray[np.int32]
    outputs: NDArray[np.int32]


class BatchDecoder(ModelLimits, Protocol):
    """Many sequences at once; what a scheduler drives. Not thread-safe: one owner at a time.

    Their keys and values live in blocks, which sequences that share a prefix share. Of a device that is lost
    `forward` alone tells, by DeviceLost: what another method finds of that, the next `forward` raises.
    """

    @property
    def block_tokens(self) -> int:
        """How many positions a block has."""

    @property
    def cheap_rows(self) -> int:
        """How many rows take hardly longer than one, when the bits of a row's logits do not depend on others.

        1 where they may; and where a sequence cannot be truncated by a few tokens wherever it is.
        """

    @property
    def prefix_tokens(self) -> int:
        """In parts of how many tokens a sequence can be gone on from: 1 for anywhere.

        More divides `block_tokens`, and is for decoders that keep only what they had lately where a part
        ended: a prefix is there for others when it is the last whole part of what a sequence has.
        """

    @property
    def kv_capacity(self) -> int | None:
        """The most tokens that the blocks hold, at least `context_length`; None while there is memory."""

    @property
    def kv_used(self) -> int:
        """How many tokens the blocks in use can hold."""

    def fits(self, counts: Mapping[int, int]) -> bool:
        """Tell whether there are blocks for so many more tokens of each sequence, by handle."""

    def new_sequence(self) -> int:
        """Open an empty sequence and return its handle."""

    def fork(self, sequence: int, length: int) -> int:
        """Open a sequence that shares the first `length` tokens of another."""

    def truncate(self, sequence: int, length: int) -> None:
        """Forget everything after the first `length` tokens."""

    def release(self, sequence: int) -> None:
        """Close a sequence and give its memory back."""

    def resume_length(self, sequence: int, length: int) -> int:
        """Return the longest prefix, at most `length`, from which the sequence can go on."""

    def forward(self, batch: Batch) -> Logits:
        """Append the rows and return the logits of the marked ones, float32 [outputs, vocab].

        Raises EngineError, after which the sequences of the batch are released; with DeviceLost all are gone.
        """


@dataclass(frozen=True, slots=True)
class TopLogits:
    """The likeliest tokens of some rows of logits.

    tokens: int32 [rows, k], the likeliest first and the lower id first among equals.
    infinite: int64 [rows], how many logits are no finite numbers; where some are NaN or infinity, the rest
        means nothing.
    totals: float64 [rows], see `rase_core.sampling.candidates.total_share`; None unless asked for.
    """

    tokens: NDArray[np.int32]
    infinite: NDArray[np.int64]
    totals: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Draws:
    """How tokens are drawn from some rows of logits, one each; all arrays are [draws].

    rows: int64, the rows. totals: float64, as those of TopLogits, of rows with a `top_p` and no `top_k`.
    top_k: int64; top_p, min_p, temperature: float64, as in GenerationConfig. uniform: float64 in [0, 1).
    """

    rows: NDArray[np.int64]
    top_k: NDArray[np.int64]
    top_p: NDArray[np.float64]
    min_p: NDArray[np.float64]
    temperature: NDArray[np.float64]
    uniform: NDArray[np.float64]
    totals: NDArray[np.float64]


@runtime_checkable
class LogitsRanker(Protocol):
    """What finds the likeliest tokens and draws from many sooner than numpy does; a BatchDecoder may be one.

    What it finds is what `rase_core.sampling.NumpyRanker` finds, to the bit.
    """

    def top_logits(self, logits: Logits, k: int, *, with_totals: bool = False) -> TopLogits:
        """Return the `k` likeliest tokens, 1 to vocab, of each row float32 [rows, vocab]."""

    def draw(self, logits: Logits, draws: Draws) -> NDArray[np.int32]:
        """Draw tokens, int32 [draws], from logits float32 [rows, vocab].

        In the rows no logit is infinite or NaN, but some, not all, may be minus infinity.
        """
