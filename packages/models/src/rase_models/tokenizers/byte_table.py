"""What byte-level BPE makes of words, by numbers instead of texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import add

import numpy as np
from numpy.typing import NDArray

from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.merge_table import separated
from rase_models.tokenizers.merging_library import misfit
from rase_models.tokenizers.pieces import is_text
from rase_models.tokenizers.vocabulary import Vocabulary

_NO_TEXT = (TokenKind.CONTROL, TokenKind.UNKNOWN)


@dataclass(frozen=True, slots=True, eq=False)
class ByteTokens:
    """The bytes of tokens.

    Attributes:
        data: uint8, those of all tokens, with one more after each.
        starts: int32 [tokens + 1], where each begins in `data`.
        is_text: bool [tokens], which of them are bytes that text may become.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int32]
    is_text: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ByteTable:
    """What words become.

    Attributes:
        tokens: the bytes of the tokens.
        merges: as `byte_merges` gives them.
        byte_ids: int32 [256], the token of each byte, -1 where there is none.
        takes_whole: whether a word that is a token is that token, whatever the merges say.
    """

    tokens: ByteTokens
    merges: NDArray[np.int32]
    byte_ids: NDArray[np.int32]
    takes_whole: bool


def byte_merges(vocabulary: Vocabulary, merges: Sequence[str]) -> NDArray[np.int32]:
    """Return the ids of two tokens and of both together, int32 [3, merges], the first merge goes first.

    Those are left out that have to do with a token that text must not become. Raises TokenizerError naming
    `tokenizer.ggml.merges` for one that does not join two tokens to a third.
    """
    left, right = _halves(vocabulary, merges)
    ids = np.array([_ids(vocabulary, texts) for texts in (left, right, list(map(add, left, right)))])
    known = ids >= 0
    is_special = np.isin(vocabulary.kinds, _NO_TEXT)
    kept = ids[:, ~(is_special[ids] & known).any(axis=0)]
    if kept.min(initial=0) < 0:
        raise misfit(vocabulary, merges)
    return kept


def byte_tokens(vocabulary: Vocabulary, character_of_byte: Mapping[int, str]) -> ByteTokens:
    """Return the bytes of all tokens; those with other characters than `character_of_byte` are no text."""
    tokens = vocabulary.tokens
    codes = separated(tokens)
    values = _values(character_of_byte)[np.minimum(codes, _OTHER)]
    starts = np.zeros(len(tokens) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, tokens), np.int32, len(tokens)) + 1, out=starts[1:])
    values = np.append(values, np.int16(0))
    values[starts[1:] - 1] = 0  # what is between tokens
    is_bytes = np.minimum.reduceat(values, starts[:-1]) >= 0
    is_text = is_bytes & ~np.isin(vocabulary.kinds, _NO_TEXT)
    return ByteTokens(values.astype(np.uint8), starts, is_text)


_OTHER = 0x200
"""Above all characters that spell bytes."""


def _values(character_of_byte: Mapping[int, str]) -> NDArray[np.int16]:
    """Return for each code point below `_OTHER` and for that itself the byte that it spells, or -1."""
    values = np.full(_OTHER + 1, -1, np.int16)
    values[list(map(ord, character_of_byte.values()))] = list(character_of_byte)
    return values


def _halves(vocabulary: Vocabulary, merges: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return what each merge joins. A token may begin with a space."""
    texts = " ".join(merges).split(" ")
    if all(texts) and set(map(str.count, merges, repeat(" "))) == {1}:
        return texts[::2], texts[1::2]
    cuts = [merge.find(" ", 1) for merge in merges]
    if min(cuts, default=1) < 1:
        raise misfit(vocabulary, merges)
    pairs = list(zip(merges, cuts, strict=True))
    return [merge[:cut] for merge, cut in pairs], [merge[cut + 1 :] for merge, cut in pairs]


def _ids(vocabulary: Vocabulary, texts: Sequence[str]) -> NDArray[np.int32]:
    """Return the ids of tokens, -1 where there is none that is whole characters."""
    ids = np.fromiter(map(vocabulary.ids.get, texts, repeat(-1)), np.int32, len(texts))
    if not is_text("".join(texts)):
        ids[[i for i, text in enumerate(texts) if not is_text(text)]] = -1
    return ids
