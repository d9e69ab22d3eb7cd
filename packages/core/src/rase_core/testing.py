"""A decoder without a model, for tests of everything that drives one."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from rase_core.decoder import Batch, Logits
from rase_core.errors import BackendFailure

_LIKELY = np.float32(20.0)


class ScriptedDecoder:
    """A TokenDecoder that plays given rows: each step's token, or its logits float32 [vocab].

    A row given as a token id makes that token by far the likeliest. After the last row the script starts
    again. `calls` records what was asked for: the prompt as a tuple, then the tokens.
    """

    def __init__(
        self,
        script: Sequence[int | Logits],
        *,
        vocab_size: int = 32,
        context_length: int = 128,
        eos_tokens: frozenset[int] = frozenset(),
    ) -> None:
        self._script = tuple(script)
        self._next = 0
        self.vocab_size = vocab_size
        self.context_length = context_length
        self.eos_tokens = eos_tokens
        self.calls: list[int | tuple[int, ...]] = []

    def prefill(self, tokens: Sequence[int]) -> Logits:
        """Start the script over."""
        self.calls.append(tuple(tokens))
        self._next = 0
        return self._row()

    def decode(self, token: int) -> Logits:
        """Play the next row, whatever the token."""
        self.calls.append(token)
        return self._row()

    def _row(self) -> Logits:
        entry = self._script[self._next % len(self._script)]
        self._next += 1
        if not isinstance(entry, int):
            return np.array(entry, np.float32)
        row = np.zeros(self.vocab_size, np.float32)
        row[entry] = _LIKELY
        return row


class ScriptedDetokenizer:
    """A Detokenizer that gives each token the bytes of a table, none to tokens outside it."""

    def __init__(self, pieces: Mapping[int, bytes]) -> None:
        self._pieces = pieces

    def push(self, token: int) -> bytes:
        """Return the token's bytes."""
        return self._pieces.get(token, b"")

    def piece(self, token: int) -> bytes:
        """Return the token's bytes, or its number in brackets."""
        return self._pieces.get(token) or f"<{token}>".encode()


class HistoryDecoder:
    """A TokenDecoder and BatchDecoder whose logits are a hash of all tokens of the sequence.

    So whatever mixes up sequences, positions, prefixes or blocks shows in the next token. Tokens live in
    blocks that forks share, at most `kv_capacity` tokens of them.

    Args:
        cheap_rows: see BatchDecoder.
        on_forward: called with every batch before it is run: to let time pass, to wait, or to fail.
        poison: a token after which all logits are NaN.
    """

    def __init__(
        self,
        *,
        vocab_size: int = 32,
        context_length: int = 128,
        eos_tokens: frozenset[int] = frozenset(),
        block_tokens: int = 4,
        kv_capacity: int | None = None,
        cheap_rows: int = 1,
        on_forward: Callable[[Batch], None] | None = None,
        poison: int | None = None,
    ) -> None:
        self.vocab_size, self.context_length, self.eos_tokens = vocab_size, context_length, eos_tokens
        self.block_tokens, self.kv_capacity = block_tokens, kv_capacity
        self.cheap_rows, self.on_forward = cheap_rows, on_forward
        self._poison = poison
        self._own: list[int] = []
        self._sequences: dict[int, _History] = {}
        self._opened = 0

    @property
    def prefix_tokens(self) -> int:
        """In parts of how many tokens a sequence can be gone on from: from anywhere."""
        return 1

    @property
    def kv_used(self) -> int:
        """How many tokens the blocks in use can hold."""
        return len(self._holders()) * self.block_tokens

    @property
    def open_sequences(self) -> int:
        """How many sequences are not released."""
        return len(self._sequences)

    def history(self, sequence: int) -> list[int]:
        """Return all tokens of a sequence."""
        return self._sequences[sequence].tokens()

    def prefill(self, tokens: Sequence[int]) -> Logits:
        """Start over with this prompt."""
        self._own = list(tokens)
        return self._logits(self._own)

    def decode(self, token: int) -> Logits:
        """Append one token."""
        self._own.append(token)
        return self._logits(self._own)

    def fits(self, counts: Mapping[int, int]) -> bool:
        """Tell whether there are blocks for so many more tokens of each sequence."""
        if self.kv_capacity is None:
            return True
        holders = self._holders()
        needed = sum(self._blocks_needed(sequence, count, holders) for sequence, count in counts.items())
        return (len(holders) + needed) * self.block_tokens <= self.kv_capacity

    def new_sequence(self) -> int:
        """Open an empty sequence."""
        return self._open(_History(0, []))

    def fork(self, sequence: int, length: int) -> int:
        """Open a sequence that shares the blocks of another."""
        return self._open(self._shortened(sequence, length))

    def truncate(self, sequence: int, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        self._sequences[sequence] = self._shortened(sequence, length)

    def release(self, sequence: int) -> None:
        """Close a sequence."""
        del self._sequences[sequence]

    def resume_length(self, sequence: int, length: int) -> int:
        """Return the shorter of `length` and the sequence's own."""
        return min(length, self._sequences[sequence].length)

    def forward(self, batch: Batch) -> Logits:
        """Append the rows and return the marked logits; ValueError for rows that do not go on."""
        sequences = batch.sequences.tolist()
        if not self.fits(Counter(sequences)):
            raise BackendFailure("the blocks do not suffice")
        if self.on_forward is not None:
            self.on_forward(batch)
        outputs = set(batch.outputs.tolist())
        rows: list[Logits] = []
        for row, sequence in enumerate(sequences):
            self._append(sequence, int(batch.positions[row]), int(batch.tokens[row]))
            if row in outputs:
                rows.append(self._logits(self.history(sequence)))
        return np.array(rows, np.float32).reshape(-1, self.vocab_size)

    def _open(self, history: "_History") -> int:
        self._opened += 1
        self._sequences[self._opened] = history
        return self._opened

    def _shortened(self, sequence: int, length: int) -> "_History":
        history = self._sequences[sequence]
        if not 0 <= length <= history.length:
            raise ValueError(f"length {length} of a sequence of {history.length} tokens")
        return _History(length, history.blocks[: -(-length // self.block_tokens)])

    def _holders(self) -> Counter[int]:
        """Return how many sequences hold each block, by the block's identity."""
        return Counter(id(block) for history in self._sequences.values() for block in history.blocks)

    def _blocks_needed(self, sequence: int, count: int, holders: Mapping[int, int]) -> int:
        history = self._sequences[sequence]
        is_partial = history.length % self.block_tokens > 0
        copies = int(count > 0 and is_partial and holders[id(history.blocks[-1])] > 1)
        return copies - (-(history.length + count) // self.block_tokens) - len(history.blocks)

    def _append(self, sequence: int, position: int, token: int) -> None:
        history = self._sequences[sequence]
        if position != history.length or position >= self.context_length:
            raise ValueError(f"position {position} in a sequence of {history.length} tokens")
        rest = position % self.block_tokens
        if rest:
            history.blocks[-1] = [*history.blocks[-1][:rest], token]
        else:
            history.blocks.append([token])
        history.length += 1

    def _logits(self, history: Sequence[int]) -> Logits:
        if history[-1] == self._poison:
            return np.full(self.vocab_size, np.nan, np.float32)
        digest = blake2b(np.array(history, np.int32).tobytes(), digest_size=8).digest()
        random = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
        return random.standard_normal(self.vocab_size, np.float32) * np.float32(2)


@dataclass(slots=True)
class _History:
    length: int
    blocks: list[list[int]]

    def tokens(self) -> list[int]:
        return [token for block in self.blocks for token in block][: self.length]
