"""Decoders over any backend: a Program's runner with a paged KV cache and the contracts of the core."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from rase_core.decoder import Batch, Draws, Logits, LogitsRanker, TopLogits
from rase_core.errors import BackendFailure, Cancelled, ContextOverflow, InvalidParameter
from rase_core.sampling import NumpyRanker

from rase_models.backends.base import BLOCK_TOKENS, Runner, StatefulRunner
from rase_models.kv_cache import KvCache, capacity_for
from rase_models.program import Program
from rase_models.state_cache import StateCache
from rase_models.step import Span, Step, counts_of

TokenIds = Sequence[int] | NDArray[np.integer]
Cancel = Callable[[], bool]


def _state_cache(program: Program, runner: Runner, limit: int | None) -> StateCache | None:
    """Return the slots of a program's states, None when it has none."""
    if not program.state_sizes:
        return None
    stateful = cast(StatefulRunner, runner)
    return StateCache(stateful.reserve_states, stateful.copy_state, limit)


def _longest(program: Program, runner: Runner, blocks: int, wanted: int) -> int:
    """Return how long a sequence may be, at most `wanted`, with the memory of so many blocks."""
    groups, longest = program.kv_groups, -(-wanted // BLOCK_TOKENS)
    fitting = bisect_right(
        range(1, longest + 1), blocks, key=lambda n: capacity_for(groups, n * BLOCK_TOKENS, runner.max_rows)
    )
    return min(fitting * BLOCK_TOKENS, wanted)


class ProgramDecoder:
    """A loaded model: a TokenDecoder and a BatchDecoder in one, over the same KV cache.

    Not thread-safe. The single sequence of `prefill` and `decode` does not disturb those of `new_sequence`.
    Token ids outside the vocabulary are InvalidParameter, more tokens than the context are
    ContextOverflow; whatever is refused leaves the decoder as it was. `kv_capacity` limits the memory of all
    sequences together, to whole blocks, and so the context: it is given in tokens of which every layer keeps
    everything. `most_states` limits the sequences that `fits` allows to a program with states.
    """

    def __init__(
        self,
        program: Program,
        runner: Runner,
        eos_tokens: frozenset[int],
        context_length: int | None = None,
        kv_capacity: int | None = None,
        most_states: int | None = None,
    ) -> None:
        self._runner = runner
        self._ranker = runner if isinstance(runner, LogitsRanker) else NumpyRanker()
        self._vocab_size = program.vocab_size
        blocks = None if kv_capacity is None else max(kv_capacity // BLOCK_TOKENS, 1)
        self._kv_capacity = None if blocks is None else blocks * BLOCK_TOKENS
        wanted = context_length or program.context_length
        self._context_length = wanted if blocks is None else _longest(program, runner, blocks, wanted)
        self._eos_tokens = eos_tokens
        self._cache = KvCache(program.kv_groups, runner.reserve, runner.copy_block, blocks, runner.max_rows)
        self._states = _state_cache(program, runner, most_states)
        self._own_sequence = self._cache.open()

    @property
    def eos_tokens(self) -> frozenset[int]:
        """Every token that ends a generation."""
        return self._eos_tokens

    @property
    def context_length(self) -> int:
        """The most tokens that one sequence may have."""
        return self._context_length

    @property
    def vocab_size(self) -> int:
        """The length of a row of logits."""
        return self._vocab_size

    @property
    def threads(self) -> int | None:
        """The most threads that decode; None where that is not the backend's to say."""
        return self._runner.threads

    @property
    def cheap_rows(self) -> int:
        """How many rows take hardly longer than one; 1 where a sequence cannot go back, or not everywhere."""
        goes_back = self._states is None and self._cache.keeps_all
        return self._runner.cheap_rows if goes_back else 1

    @property
    def block_tokens(self) -> int:
        """How many positions a block has."""
        return BLOCK_TOKENS

    @property
    def prefix_tokens(self) -> int:
        """In parts of how many tokens a sequence can be gone on from: blocks where there are states."""
        return 1 if self._states is None else BLOCK_TOKENS

    @property
    def kv_capacity(self) -> int | None:
        """The tokens that the memory is enough for if every layer keeps them; None while there is memory."""
        return self._kv_capacity

    @property
    def kv_used(self) -> int:
        """How many tokens the memory in use would be enough for if every layer kept them."""
        return self._cache.blocks_used * BLOCK_TOKENS

    def fits(self, counts: Mapping[int, int]) -> bool:
        """Tell whether there is memory for so many more tokens of each sequence, by handle."""
        return self._cache.fits(counts) and (self._states is None or self._states.fits(counts))

    def prefill(self, tokens: TokenIds, cancelled: Cancel | None = None) -> Logits:
        """Start over with this prompt; return the logits after its last token, float32 [vocab].

        `cancelled` is asked between chunks of the prompt; when it says so, Cancelled is raised and the
        sequence is empty.
        """
        prompt = self._checked_tokens(tokens, "prompt")
        if not len(prompt):
            raise InvalidParameter("prompt", [], "at least one token")
        self._check_fits(len(prompt))
        self.truncate(self._own_sequence, 0)
        logits = self._append(self._own_sequence, prompt, [len(prompt) - 1], cancelled)
        return logits.reshape(-1)

    def decode(self, token: int) -> Logits:
        """Append one token; return the logits after it, float32 [vocab]."""
        tokens = self._checked_tokens([token], "token")
        self._check_fits(self._cache.length(self._own_sequence) + 1)
        return self._append(self._own_sequence, tokens, [0]).reshape(-1)

    def logits(self, tokens: TokenIds) -> Logits:
        """Return the logits after every one of these tokens, float32 [tokens, vocab]."""
        checked = self._checked_tokens(tokens, "tokens")
        self._check_fits(len(checked))
        sequence = self._cache.open()
        try:
            return self._append(sequence, checked, range(len(checked)))
        finally:
            self.release(sequence)

    def new_sequence(self) -> int:
        """Open an empty sequence and return its handle."""
        return self._cache.open()

    def fork(self, sequence: int, length: int) -> int:
        """Open a sequence that shares the first `length` tokens of another.

        ValueError for a length that the other has not, or from which it cannot go on.
        """
        if self._states is None:
            return self._cache.fork(sequence, length)
        own = self._cache.length(sequence)
        self._check_resumable(sequence, length)
        handle = self._cache.fork(sequence, length)
        self._states.fork(sequence, own, handle, length)
        return handle

    def truncate(self, sequence: int, length: int) -> None:
        """Forget everything after the first `length` tokens; ValueError as in `fork`."""
        if self._states is not None:
            self._check_resumable(sequence, length)
            self._states.truncate(sequence, self._cache.length(sequence), length)
        self._cache.truncate(sequence, length)

    def release(self, sequence: int) -> None:
        """Close a sequence and give its memory back."""
        self._cache.release(sequence)
        if self._states is not None:
            self._states.release(sequence)

    def resume_length(self, sequence: int, length: int) -> int:
        """Return the longest prefix, at most `length`, from which the sequence can go on."""
        own, resumable = self._cache.length(sequence), self._cache.resume_length(sequence, length)
        while self._states is not None:
            length = self._states.resume_length(sequence, own, resumable)
            resumable = self._cache.resume_length(sequence, length)
            if resumable == length:
                break
        return resumable

    def forward(self, batch: Batch) -> Logits:
        """Append the rows and return the logits of the marked ones, float32 [outputs, vocab].

        A batch may have more rows than the runner takes at once. ValueError for arrays that do not fit
        together and for rows that do not go on where their sequence ends, KeyError for a sequence that is not
        open.
        """
        step = Step.of_batch(batch)
        self._checked_tokens(step.tokens, "tokens")
        spans = step.spans()
        for sequence, span in spans.items():
            self._check_next(sequence, span)
        return self._run(step, counts_of(spans), keep=True)

    def top_logits(self, logits: Logits, k: int, *, with_totals: bool = False) -> TopLogits:
        """Return the `k` likeliest tokens, 1 to vocab, of each row float32 [rows, vocab]."""
        return self._ranker.top_logits(logits, k, with_totals=with_totals)

    def draw(self, logits: Logits, draws: Draws) -> NDArray[np.int32]:
        """Draw tokens, int32 [draws], from logits float32 [rows, vocab]; see LogitsRanker."""
        return self._ranker.draw(logits, draws)

    def close(self) -> None:
        """Stop the runner and free its memory; the decoder is unusable afterwards."""
        self._runner.close()

    def _checked_tokens(self, tokens: TokenIds, what: str) -> NDArray[np.int32]:
        ids = np.asarray(tokens) if len(tokens) else np.empty(0, np.int32)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise InvalidParameter(what, f"{ids.ndim}-dimensional {ids.dtype}", "a sequence of token ids")
        if len(ids) and (ids.min() < 0 or ids.max() >= self._vocab_size):
            wrong = ids[(ids < 0) | (ids >= self._vocab_size)]
            expected = f"token ids of 0 to {self._vocab_size - 1}"
            raise InvalidParameter(what, int(wrong[0]), expected)
        return ids.astype(np.int32)

    def _check_fits(self, length: int) -> None:
        if length > self._context_length:
            raise ContextOverflow(length, self._context_length)

    def _check_next(self, sequence: int, span: Span) -> None:
        length = self._cache.length(sequence)
        if span.start != length:
            raise ValueError(f"sequence {sequence} has {length} tokens, its next one is not at {span.start}")
        self._check_fits(span.end)

    def _append(
        self,
        sequence: int,
        tokens: NDArray[np.int32],
        outputs: Sequence[int],
        cancelled: Cancel | None = None,
    ) -> Logits:
        step = Step.of_sequence(sequence, self._cache.length(sequence), tokens, outputs)
        return self._run(step, {sequence: len(tokens)}, cancelled)

    def _run(
        self, step: Step, counts: Mapping[int, int], cancelled: Cancel | None = None, *, keep: bool = False
    ) -> Logits:
        """Run a checked step, all of it or nothing; `keep` copies of states at whole blocks."""
        try:
            return self._run_whole(step, counts, cancelled, keep)
        except MemoryError as error:
            tokens = sum(counts.values())
            advice = "use a shorter context or fewer sequences at once"
            raise BackendFailure(f"no memory for {tokens} more tokens", advice) from error

    def _run_whole(
        self, step: Step, counts: Mapping[int, int], cancelled: Cancel | None, keep: bool
    ) -> Logits:
        self._cache.prepare(counts)
        try:
            logits = self._run_keeping(step) if keep and self._states else self._run_chunks(step, cancelled)
        except BaseException:
            self._cache.withdraw(counts)
            if self._states is not None:
                self._lose_states(counts)
            raise
        self._cache.settle(counts)
        return logits

    def _run_chunks(self, step: Step, cancelled: Cancel | None) -> Logits:
        parts: list[Logits] = []
        for chunk in step.chunks(self._runner.max_rows):
            if cancelled is not None and cancelled():
                raise Cancelled
            parts.append(self._run_chunk(chunk))
        return parts[0] if len(parts) == 1 else np.concatenate([self._no_logits(), *parts])

    def _run_chunk(self, chunk: Step) -> Logits:
        counts = counts_of(chunk.spans())
        self._cache.extend(counts)
        slot = None if self._states is None else self._states.slot
        logits = self._runner.run(chunk.placed(self._cache.blocks, slot))
        self._cache.advance(counts)
        return logits

    def _run_keeping(self, step: Step) -> Logits:
        """Run a step so that copies of states can be kept where blocks end, which are what prefixes share."""
        if self._states is None:
            raise ValueError("a program without states keeps none")
        logits = np.empty((len(step.outputs), self._vocab_size), np.float32)
        for part, places in step.cut(BLOCK_TOKENS):
            logits[places] = self._run_chunks(part, None)
            for sequence, span in part.spans().items():
                if span.end % BLOCK_TOKENS == 0:
                    self._states.keep(sequence, span.end)
        return logits

    def _lose_states(self, sequences: Iterable[int]) -> None:
        """Give up the states of sequences that a failed run may have moved on; empty ones have none."""
        for sequence in sequences:
            if self._states is not None and self._cache.length(sequence) > 0:
                self._states.lose(sequence)

    def _check_resumable(self, sequence: int, length: int) -> None:
        if self.resume_length(sequence, length) != length:
            raise ValueError(f"sequence {sequence} cannot go on from {length} tokens")

    def _no_logits(self) -> Logits:
        return np.empty((0, self._vocab_size), np.float32)
