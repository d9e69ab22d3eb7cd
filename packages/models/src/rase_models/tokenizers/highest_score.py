"""PLaMo 2's tokenizer: of all ways to write a text, the one whose tokens have the highest score together.

A character without token is written by its bytes, at a score of its own. The scores count in whole
ten-thousandths, so that sums are exact and equal ones are told: there the longer token comes first.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from rase_models.tokenizers.byte_fallback import byte_tokens
from rase_models.tokenizers.gguf_encoder import in_turn
from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.vocabulary import Vocabulary

_WHOLE = 10_000  # of a score of one
_BYTES_COST = 1000 * _WHOLE
_MOST_COST = 2000 * _WHOLE  # a token that costs as much or more is never written
_BOUND = 1 << 31
_TEXT = (TokenKind.NORMAL, TokenKind.USER_DEFINED)


class HighestScore:
    """The choice among the tokens of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, scores: NDArray[np.float64]) -> None:
        self._unknown = vocabulary.unknown
        self._byte_ids: list[int] = vocabulary.byte_ids().tolist()
        self._ids = _text_ids(vocabulary, scores)
        self._costs = {token: _cost(float(scores[i])) for token, i in self._ids.items()}
        self._lengths = _lengths_by_start(self._ids)

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        Raises UnencodableText for a character that neither a token nor byte tokens stand for.
        """
        return in_turn(parts, self._written)

    def _written(self, text: str) -> list[int]:
        lengths, ids, position = self._best_lengths(text), list[int](), 0
        while position < len(text):
            length = lengths[position]
            if length:
                ids.append(self._ids[text[position : position + length]])
            else:
                ids += byte_tokens(text[position], self._byte_ids, self._unknown)
            position += length or 1
        return ids

    def _best_lengths(self, text: str) -> list[int]:
        """Return for each place how long the token is that the best way on begins with; 0 for bytes."""
        size, cost_of, lengths_of = len(text), self._costs.get, self._lengths.get
        rest, best = [0] * (size + 1), [0] * size
        for start in range(size - 1, -1, -1):
            least, taken = rest[start + 1] + _BYTES_COST, 0
            for length in (1, *lengths_of(text[start : start + 2], ())):
                end = start + length
                if end > size:
                    break
                cost = cost_of(text[start:end])
                if cost is not None and cost + rest[end] <= least:
                    least, taken = cost + rest[end], length
            rest[start], best[start] = least, taken
        return best


def _text_ids(vocabulary: Vocabulary, scores: NDArray[np.float64]) -> dict[str, int]:
    """Return the tokens that texts are written with."""
    costs = -scores.clip(-_BOUND, _BOUND) * _WHOLE
    taken = np.isin(vocabulary.kinds, _TEXT) & np.isfinite(scores) & (costs < _MOST_COST - 0.5)
    byte_ids = vocabulary.byte_ids()
    taken[byte_ids[byte_ids >= 0]] = False  # whatever kind the file gives them
    ids: list[int] = np.flatnonzero(taken).tolist()
    return {vocabulary.tokens[i]: i for i in ids}


def _cost(score: float) -> int:
    """Return what a token costs: its score below zero, rounded, halves away from zero."""
    whole = math.floor(min(abs(score), _BOUND) * _WHOLE + 0.5)
    return int(math.copysign(min(whole, _BOUND), -score))


def _lengths_by_start(tokens: Iterable[str]) -> Mapping[str, list[int]]:
    """Return for each two characters how long the tokens are that begin with them, shortest first."""
    lengths: defaultdict[str, set[int]] = defaultdict(set)
    for token in tokens:
        if len(token) > 1:
            lengths[token[:2]].add(len(token))
    return {start: sorted(found) for start, found in lengths.items()}
