"""A decoder without a model, for tests of everything that drives one."""

from collections.abc import Mapping, Sequence

import numpy as np

from rase_core.decoder import Logits

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
