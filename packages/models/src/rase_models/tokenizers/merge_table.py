"""Which pairs of symbols may become one, and which of them first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.vocabulary import Vocabulary

NEIGHBOUR_ODD = 0x9E3779B1
"""Spreads neighbouring numbers, as Knuth's multiplicative hashing does."""
NEIGHBOUR_SHIFT = 10
_HASHES = 1 << (32 - NEIGHBOUR_SHIFT)

_BETWEEN = "\ud800"  # which no text has
_NO_TEXT = (TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.BYTE)


@dataclass(frozen=True, slots=True, eq=False)
class MergeTable:
    """What the texts of a vocabulary may become.

    Attributes:
        tokens: the text of each id.
        is_text: bool [tokens], which of them text may become.
        pairs: the texts of each two symbols that may merge, with `joint` between them.
        ranks: int32 [pairs], the lowest goes first; a pair of a negative one does not merge.
        joint: a space, which symbols do not have, or nothing: then `pairs` are the tokens.
        byte_ids: int32 [256], the token of each byte, -1 where there is none.
        unknown: the id of what has no other; None where there is none.
    """

    tokens: Sequence[str]
    is_text: NDArray[np.bool_]
    pairs: Sequence[str]
    ranks: NDArray[np.int32]
    joint: str
    byte_ids: NDArray[np.int32]
    unknown: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The characters between which something may merge: code points, uint32 [n] each."""

    left: NDArray[np.uint32]
    right: NDArray[np.uint32]

    def hashed(self) -> NDArray[np.bool_]:
        """Return for each hash of two characters whether they are among these, bool [2 ** 22]."""
        known = np.zeros(_HASHES, np.bool_)
        known[neighbour_hashes(self.left, self.right)] = True
        return known


def neighbours(pairs: NDArray[np.uint32], joint: str) -> Neighbours:
    """Return between which characters the pairs of a table merge, by its `separated` ones.

    A pair or two more do no harm.
    """
    if not joint:
        return Neighbours(pairs[:-1], pairs[1:])
    joints = np.flatnonzero(pairs[1:-1] == ord(joint))
    return Neighbours(pairs[joints], pairs[joints + 2])


def separated(texts: Iterable[str]) -> NDArray[np.uint32]:
    """Return the code points of texts, uint32, with one that no text has between any two of them."""
    return code_points(_BETWEEN.join(texts))


def neighbour_hashes(left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return a number of 22 bits for each two code points."""
    odd = np.uint32(NEIGHBOUR_ODD)
    return (left * odd + right) * odd >> np.uint32(NEIGHBOUR_SHIFT)


def code_points(text: str) -> NDArray[np.uint32]:
    """Return the code points of a text, uint32 [n]."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def table_of_scores(vocabulary: Vocabulary, scores: NDArray[np.float64]) -> MergeTable:
    """Return a table by which two may become any token of text; the one of the highest score goes first."""
    is_text = _is_text(vocabulary)
    ranks = np.unique(-scores, return_inverse=True)[1].astype(np.int32)
    ranks[~is_text] = -1
    return _table(vocabulary, is_text, vocabulary.tokens, ranks, "")


def table_of_merges(vocabulary: Vocabulary, merges: Sequence[str]) -> MergeTable:
    """Return a table by which only the listed pairs merge, two texts and a space between them each.

    Those do not that would spell a control token.
    """
    ranks, writable = np.arange(len(merges), dtype=np.int32), vocabulary.writable()
    special = vocabulary.ids.keys() - writable.keys()
    ranks[[i for i, merge in enumerate(merges) if merge.replace(" ", "") in special]] = -1
    return _table(vocabulary, _is_text(vocabulary), merges, ranks, " ")


def _table(
    vocabulary: Vocabulary,
    is_text: NDArray[np.bool_],
    pairs: Sequence[str],
    ranks: NDArray[np.int32],
    joint: str,
) -> MergeTable:
    unknown, byte_ids = _unknown(vocabulary), vocabulary.byte_ids()
    return MergeTable(vocabulary.tokens, is_text, pairs, ranks, joint, byte_ids, unknown)


def _is_text(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    return np.isin(vocabulary.kinds, _NO_TEXT, invert=True)


def _unknown(vocabulary: Vocabulary) -> int | None:
    """Return the unknown token, unless the file gives it to ordinary text."""
    token = vocabulary.unknown
    return None if token is None or vocabulary.kinds[token] == TokenKind.NORMAL else token
