"""The decoder's sequences: opened with what others have computed, kept for later ones, given up for room."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import gcd

import numpy as np
from numpy.typing import NDArray

from rase_core.decoder import BatchDecoder
from rase_core.scheduler.prefix_tree import Node, Path, PrefixTree

Tokens = NDArray[np.int32]

STRIDE = 8
"""Prefixes are shared in parts of so many tokens: a block that is shared in part is copied first."""


class Held(Path):
    """A sequence of the decoder and how long it is; its path leads on to the tokens that it is to have."""

    def __init__(self, root: Node, handle: int, length: int) -> None:
        super().__init__(root)
        self.handle, self.length = handle, length


@dataclass(frozen=True, slots=True)
class Match:
    """How much of a prompt the decoder has: `length` tokens of `source`, and soon `promised`, no fewer."""

    source: Held | None
    length: int
    promised: int


NO_MATCH = Match(None, 0, 0)


class SequencePool:
    """Sequences in use and those kept as prefixes of later ones.

    While all sequences together have more blocks than those of `most_cached` tokens, kept ones go, the
    longest unused first; 0 keeps none.
    """

    def __init__(self, decoder: BatchDecoder, most_cached: int | None = None) -> None:
        self._decoder, self._most_cached = decoder, most_cached
        stride = max(gcd(decoder.block_tokens, STRIDE), decoder.prefix_tokens)
        self._tree = PrefixTree(stride, decoder.block_tokens // stride)
        self._cached: dict[Path, Held] = {}  # the longest unused first

    @property
    def cached_sequences(self) -> int:
        """How many sequences are kept."""
        return len(self._cached)

    def match(self, tokens: Tokens) -> Match:
        """Look for the longest prefix of the tokens, short of the last, that a sequence has or will have."""
        nodes = list(self._tree.walk(tokens[:-1]))[::-1]
        source, length = self._longest(nodes)
        if not self._is_cut_anywhere or (source is not None and not self._goes_on_from(source, length)):
            source, length = self._longest_part(nodes)
        longer = takewhile(lambda node: self._tokens_of(node) > length, nodes)
        promised = next((self._tokens_of(node) for node in longer if self._is_coming(node)), length)
        return Match(source, length, promised)

    def open(self, match: Match) -> Held:
        """Open a sequence that begins with the match; nobody shares anything of it until it is `promise`d."""
        if match.source is None:
            return Held(self._tree.root, self._decoder.new_sequence(), 0)
        self._touch(match.source)
        length = self._decoder.resume_length(match.source.handle, match.length)
        return Held(self._tree.root, self._decoder.fork(match.source.handle, length), length)

    def promise(self, held: Held, tokens: Tokens) -> None:
        """Let others know which tokens a sequence is to have, which takes longer the more they are."""
        self._tree.extend(held, tokens)

    def fork(self, source: Held, tokens: Tokens) -> Held:
        """Open a sequence that has the tokens, all that `source` has."""
        handle = self._decoder.fork(source.handle, source.length)
        held = Held(self._tree.root, handle, source.length)
        self.promise(held, tokens)
        return held

    def grow(self, held: Held, count: int, tokens: Tokens) -> None:
        """Count so many more tokens as computed, of those that the sequence is to have."""
        held.length += count
        if held.length >= (held.node.depth + 1) * self._tree.stride:
            self._tree.extend(held, tokens[: held.length])

    def cut(self, held: Held) -> None:
        """Let the decoder forget what it has computed of a sequence beyond what was counted."""
        self._decoder.truncate(held.handle, held.length)

    def close(self, held: Held, *, keep: bool) -> None:
        """Give a sequence up, or keep its whole strides as a prefix for later ones."""
        depth = self._resumable_strides(held) if keep and self._most_cached != 0 else 0
        self._tree.shorten(held, depth)
        same = next((other for other in held.node.holders if other in self._cached), None)
        if same is not None:
            self._touch(same)
        if depth and same is None:
            self._keep(held)
        else:
            self._release(held)

    def make_room(self, counts: Mapping[int, int]) -> bool:
        """Give kept sequences up until so many more tokens fit; False when they do not even so."""
        while not self._decoder.fits(counts):
            if not self._cached:
                return False
            self._drop_oldest()
        return True

    def clear(self) -> None:
        """Give all kept sequences up."""
        while self._cached:
            self._drop_oldest()

    @property
    def _is_cut_anywhere(self) -> bool:
        return self._decoder.prefix_tokens == 1

    def _goes_on_from(self, held: Held, length: int) -> bool:
        """Whether a sequence still has what its prefix needs: where layers have windows it may have not."""
        return self._decoder.resume_length(held.handle, length) == length

    def _tokens_of(self, node: Node) -> int:
        return node.depth * self._tree.stride

    def _longest(self, nodes: Sequence[Node]) -> tuple[Held | None, int]:
        """Return who has most of these prefixes, the longest first, and how much."""
        for node in nodes:
            length = self._tokens_of(node)
            for held in node.holders:
                if isinstance(held, Held) and held.length >= length:
                    return held, length
        return None, 0

    def _longest_part(self, nodes: Sequence[Node]) -> tuple[Held | None, int]:
        """Return who can be gone on from with most of these prefixes, and how much."""
        shared = {held: self._tokens_of(node) for node in reversed(nodes) for held in node.holders}
        lengths = {
            held: self._decoder.resume_length(held.handle, length)
            for held, length in shared.items()
            if isinstance(held, Held)
        }
        source = max(lengths, key=lambda held: lengths[held], default=None)
        return (None, 0) if source is None or not lengths[source] else (source, lengths[source])

    def _is_coming(self, node: Node) -> bool:
        """Whether a sequence is going to have a prefix, and can be gone on from there when it has."""
        length = self._tokens_of(node)
        return any(
            isinstance(held, Held) and held.length < length and (self._is_cut_anywhere or held.node is node)
            for held in node.holders
        )

    def _resumable_strides(self, held: Held) -> int:
        stride, length, whole = self._tree.stride, held.length, -1
        while length != whole:
            whole = length - length % stride
            length = self._decoder.resume_length(held.handle, whole)
        return whole // stride

    def _keep(self, held: Held) -> None:
        held.length = held.node.depth * self._tree.stride
        self._decoder.truncate(held.handle, held.length)
        above = set(held.node.ancestors())
        for other in [cached for cached in self._cached.values() if cached.node in above]:
            self._drop(other)
        self._cached[held] = held
        self._trim()

    def _trim(self) -> None:
        most = self._most_cached
        while self._cached and most is not None and self._tree.blocks * self._decoder.block_tokens > most:
            self._drop_oldest()

    def _touch(self, held: Path) -> None:
        if held in self._cached:
            self._cached[held] = self._cached.pop(held)

    def _drop_oldest(self) -> None:
        self._drop(next(iter(self._cached.values())))

    def _drop(self, held: Held) -> None:
        del self._cached[held]
        self._tree.shorten(held, 0)
        self._release(held)

    def _release(self, held: Held) -> None:
        self._tree.shorten(held, 0)
        self._decoder.release(held.handle)
