"""How likely tokens were, by the model alone: before bias, penalties, temperature and rules."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rase_core.decoder import Logits
from rase_core.errors import InvalidParameter
from rase_core.sampling.candidates import top_k
from rase_core.text import Utf8Assembler

MOST_TOP = 100


class Spelling(Protocol):
    """Turns tokens into bytes: those of a text one after the other, and any token by itself."""

    def push(self, token: int) -> bytes:
        """Return the bytes that one more token adds; they may end within a character."""

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token is spelt with, also one that is no part of a text."""


@dataclass(frozen=True, slots=True)
class Logprobs:
    """What is to be told: of each token of the answer its own probability and those of the `top` likeliest.

    `of_prompt` tells the same of the prompt, which is computed as a whole for that, whatever is cached; then
    the answer may have no token at all. Raises InvalidParameter.
    """

    top: int = 0
    of_prompt: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.top, int) or isinstance(self.top, bool) or not 0 <= self.top <= MOST_TOP:
            raise InvalidParameter("logprobs", self.top, f"a whole number of 0 to {MOST_TOP}")


@dataclass(frozen=True, slots=True)
class Likely:
    """A token, the natural logarithm of its probability, and the bytes that it is spelt with."""

    token: int
    logprob: float
    piece: bytes


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """A token of an answer, and the likeliest in its place, the likeliest first.

    `logprob` is None for the first token of a prompt. `piece` holds the bytes that the token added to the
    text, which may end within a character, or its spelling when it is no part of the text; `offset` counts
    the characters of the text before it.
    """

    token: int
    logprob: float | None
    piece: bytes
    offset: int
    top: tuple[Likely, ...] = ()


def log_softmax(logits: Logits, tokens: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the natural logarithms of the probabilities of some tokens, by finite logits float32 [vocab]."""
    largest = logits.max()
    total = float(np.exp(logits - largest).sum(dtype=np.float64))
    return logits[tokens].astype(np.float64) - (float(largest) + math.log(total))


def told_of(
    logits: Logits, token: int, top: int, spelling: Spelling, piece: bytes, offset: int
) -> TokenLogprobs:
    """Tell the probabilities of a token and of the `top` likeliest in its place, by float32 [vocab]."""
    tokens = top_k(logits, top).tokens if top else np.empty(0, np.intp)
    own, *others = log_softmax(logits, np.concatenate((np.array([token]), tokens))).tolist()
    likely = zip(tokens.tolist(), others, strict=True)
    return TokenLogprobs(
        token, own, piece, offset, tuple(Likely(i, value, spelling.piece(i)) for i, value in likely)
    )


class PromptLogprobs:
    """The log probabilities of a prompt's tokens, as its rows of logits come; some may come again.

    `told` has one for each token in the end, the first one without a probability.
    """

    def __init__(self, prompt: Sequence[int], top: int, spelling: Spelling) -> None:
        self._prompt, self._top, self._spelling = prompt, top, spelling
        self._characters = Utf8Assembler()
        self._offset = 0
        self.told: list[TokenLogprobs] = []
        self._tell(None)

    @property
    def is_complete(self) -> bool:
        """Whether nothing more is to come."""
        return len(self.told) == len(self._prompt)

    def see(self, position: int, logits: NDArray[np.float32]) -> None:
        """Take the rows after the tokens from a position on, float32 [rows, vocab]."""
        for row in logits[len(self.told) - 1 - position :]:
            if not self.is_complete:
                self._tell(row)

    def _tell(self, logits: Logits | None) -> None:
        token = self._prompt[len(self.told)]
        data = self._spelling.push(token)
        piece = data or self._spelling.piece(token)
        if logits is None:
            self.told.append(TokenLogprobs(token, None, piece, 0))
        else:
            self.told.append(told_of(logits, token, self._top, self._spelling, piece, self._offset))
        self._offset += len(self._characters.push(data))


class AnswerLogprobs:
    """The log probabilities of an answer's tokens, kept back until their text is certain.

    They come out with the first of the token's characters; those of a token without any, with the next one's.
    """

    def __init__(self, top: int, spelling: Spelling) -> None:
        self._top, self._spelling = top, spelling
        self._waiting: list[TokenLogprobs] = []
        self._read = self._written = 0
        self.told: list[TokenLogprobs] = []

    def add(self, token: int, data: bytes, characters: str, logits: Logits) -> None:
        """Take a token, its bytes, the characters whole with them, and the logits that it was chosen by."""
        piece = data or self._spelling.piece(token)
        self._waiting.append(told_of(logits, token, self._top, self._spelling, piece, self._read))
        self._read += len(characters)

    def come_out(self, text: str, *, is_last: bool = False) -> tuple[TokenLogprobs, ...]:
        """Return what goes with a text that has become certain; with the last one, all that there is."""
        self._written += len(text)
        late = len(self._waiting)
        if not is_last:
            late = sum(told.offset < self._written for told in self._waiting)
        told, self._waiting = self._waiting[:late], self._waiting[late:]
        self.told += told
        return tuple(told)
