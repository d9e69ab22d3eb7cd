"""The vocabulary of a GGUF: tokens, their kinds, the special ids and the rules for BOS and EOS."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import TokenizerError

from rase_models.gguf import GgufFile
from rase_models.tokenizers.end_of_generation import UNMISTAKABLE_NAMES, end_of_generation_tokens
from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.special_ids import KEYS, special_id

TOKENS_KEY = "tokenizer.ggml.tokens"
KINDS_KEY = "tokenizer.ggml.token_type"

_LONGEST = 1 << 10
"""Characters of a token. The longest in use have 512; libraries recurse as deep as tokens are long."""


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """A checked vocabulary.

    Attributes:
        path: the file, for errors.
        tokens: the text of each id, as the file spells it.
        ids: the id of each text.
        kinds: int32 [tokens], TokenKind; a well-known end of an answer is CONTROL whatever the file says.
        bos, eos, unknown: ids, None where there is none. A token that begins or ends texts is not `unknown`.
        ends: the ids that end an answer.
        add_bos, add_eos: what `encode` adds.
    """

    path: Path
    tokens: tuple[str, ...]
    ids: Mapping[str, int]
    kinds: NDArray[np.int32]
    bos: int | None
    eos: int | None
    unknown: int | None
    ends: frozenset[int]
    add_bos: bool
    add_eos: bool

    def of_kind(self, *kinds: TokenKind) -> list[int]:
        """Return the ids of the tokens of these kinds, ascending."""
        found: list[int] = np.flatnonzero(np.isin(self.kinds, kinds)).tolist()
        return found

    def writable(self) -> dict[str, int]:
        """Return the tokens that text may become: all but the control tokens and the unknown one."""
        special = frozenset(self.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN))
        return {token: i for token, i in self.ids.items() if i not in special}

    def byte_ids(self) -> NDArray[np.int32]:
        """Return the token of each byte, int32 [256], by its spelling (`<0x0A>`); -1 where there is none."""
        ids = [self.ids.get(f"<0x{byte:02X}>", -1) for byte in range(256)]
        special = frozenset(self.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN))
        return np.array([-1 if i in special else i for i in ids], np.int32)


def read_vocabulary(file: GgufFile, *, adds_bos: bool, adds_eos: bool = False) -> Vocabulary:
    """Read and check the vocabulary of a GGUF.

    `adds_bos` and `adds_eos` are what holds when the file does not say. Raises TokenizerError naming the key
    for a vocabulary that is empty, has a token twice, a huge one or ids out of range, and for a BOS or EOS to
    be added that is not there; InvalidGguf for a missing key or a wrong type.
    """
    tokens = _named(file.strings(TOKENS_KEY))
    _check_lengths(file.path, tokens)
    ids = _index(file.path, tokens)
    bos, eos = special_id(file, "bos", len(tokens)), special_id(file, "eos", len(tokens))
    ends = end_of_generation_tokens(file, ids)
    unknown = special_id(file, "unknown", len(tokens))
    vocabulary = Vocabulary(
        path=file.path,
        tokens=tokens,
        ids=ids,
        kinds=_kinds(file, ids),
        bos=bos,
        eos=eos,
        unknown=None if unknown in {bos, eos, *ends} else unknown,
        ends=ends,
        add_bos=file.boolean("tokenizer.ggml.add_bos_token", adds_bos),
        add_eos=file.boolean("tokenizer.ggml.add_eos_token", adds_eos),
    )
    _check_added(vocabulary)
    return vocabulary


def _named(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Give a name to every empty token, which no text can ever mean."""
    if "" not in tokens:
        return tokens
    return tuple(token or f"[EMPTY_{i}]" for i, token in enumerate(tokens))


def _check_lengths(path: Path, tokens: tuple[str, ...]) -> None:
    longest = max(map(len, tokens), default=0)
    if longest > _LONGEST:
        found = next(i for i, token in enumerate(tokens) if len(token) == longest)
        raise TokenizerError(
            f"{path}: metadata {TOKENS_KEY}: token {found} has {longest} characters, more than {_LONGEST}"
        )


def _index(path: Path, tokens: tuple[str, ...]) -> dict[str, int]:
    if not tokens:
        raise TokenizerError(f"{path}: metadata {TOKENS_KEY}: the vocabulary is empty")
    ids = dict(zip(tokens, range(len(tokens)), strict=True))
    if len(ids) < len(tokens):
        second = next(i for i, token in enumerate(tokens) if ids[token] != i)
        twice = tokens[second]
        raise TokenizerError(
            f"{path}: metadata {TOKENS_KEY}: tokens {second} and {ids[twice]} are both {twice!r}"
        )
    return ids


def _kinds(file: GgufFile, ids: Mapping[str, int]) -> NDArray[np.int32]:
    given, size = file.integers(KINDS_KEY, None), len(ids)
    if given is None:
        kinds = np.full(size, TokenKind.NORMAL, np.int32)
    elif len(given) != size:
        raise TokenizerError(f"{file.path}: metadata {KINDS_KEY}: {len(given)} kinds for {size} tokens")
    else:
        kinds = np.asarray(file.metadata[KINDS_KEY]).clip(0, 7).astype(np.int32)
    kinds[[ids[name] for name in UNMISTAKABLE_NAMES if name in ids]] = TokenKind.CONTROL
    return kinds


def _check_added(vocabulary: Vocabulary) -> None:
    added = (("bos", vocabulary.add_bos, vocabulary.bos), ("eos", vocabulary.add_eos, vocabulary.eos))
    for name, add, token in added:
        if add and token is None:
            raise TokenizerError(
                f"{vocabulary.path}: tokenizer.ggml.add_{name}_token is true, but {KEYS[name]} is missing"
            )
