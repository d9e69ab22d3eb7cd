"""Two hash tables of byte-level BPE: the token of a word, and the rank of two tokens that merge."""

from typing import Any

from rase_models.backends.cpu.byte_abi import (
    BYTE_IDS,
    BYTE_PAIRS,
    COUNT,
    DATA,
    ID_BITS,
    IS_TEXT,
    LONGEST,
    MERGE_COUNT,
    MERGES,
    NO_RANK,
    ODD,
    PAIR_MASK,
    PAIRS,
    RANK_BITS,
    SLOT_MASK,
    SLOTS,
    STARTS,
    TAKES_WHOLE,
)
from rase_models.backends.cpu.simd import compiled, load_i32, load_i64, store_i32, store_i64
from rase_models.backends.cpu.simd.text import load_i64_anywhere, load_u8

IS_WHOLE, IS_NOT_WHOLE = 1 << 22, 2 << 22
"""What a slot knows of its token: that its bytes become it, or that they become others."""
TOKEN_BITS = (1 << 22) - 1
_TAG_BITS = -1 << 24
_RANK_MASK = (1 << RANK_BITS) - 1


@compiled
def _tail(address: int, length: int) -> int:
    """Return so many bytes, 1 to 7, as a number; eight are read."""
    return int(load_i64_anywhere(address) & ((1 << 8 * length) - 1))


@compiled
def _hash(address: int, length: int, odd: int) -> int:
    key = length * odd
    at = 0
    while at + 8 <= length:
        key = (key ^ load_i64_anywhere(address + at)) * odd
        key ^= key >> 29
        at += 8
    if at < length:
        key = (key ^ _tail(address + at, length - at)) * odd
        key ^= key >> 29
    return int(key * odd ^ key >> 32)


@compiled
def _are_equal(left: int, right: int, length: int) -> bool:
    at = 0
    while at + 8 <= length:
        if load_i64_anywhere(left + at) != load_i64_anywhere(right + at):
            return False
        at += 8
    return at == length or _tail(left + at, length - at) == _tail(right + at, length - at)


@compiled
def slot_of(op: int, word: int, length: int) -> int:
    """Return the address of the slot of a token, or 0."""
    if length > load_i64(op + LONGEST):
        return 0
    key = _hash(word, length, load_i64(op + ODD))
    slots, mask, starts = load_i64(op + SLOTS), load_i64(op + SLOT_MASK), load_i64(op + STARTS)
    slot = key & mask
    while True:
        held = load_i64(slots + 8 * slot)
        if held == 0:
            return 0
        if (held ^ key) & _TAG_BITS == 0:
            place = starts + 4 * ((held & TOKEN_BITS) - 1)
            start = int(load_i32(place))
            if int(load_i32(place + 4)) - start - 1 == length and _are_equal(
                load_i64(op + DATA) + start, word, length
            ):
                return int(slots + 8 * slot)
        slot = (slot + 1) & mask


@compiled
def rank_of(op: int, left: int, right: int) -> int:
    """Return the rank of two tokens, or NO_RANK."""
    pair = left << ID_BITS | right
    slots, mask = load_i64(op + PAIRS), load_i64(op + PAIR_MASK)
    slot = pair * load_i64(op + ODD) >> 36 & mask
    while True:
        held = load_i64(slots + 8 * slot)
        if held == 0:
            return NO_RANK
        if held >> RANK_BITS == pair:
            return int(held & _RANK_MASK) - 1
        slot = (slot + 1) & mask


@compiled
def _enter_token(op: int, token: int) -> None:
    place = load_i64(op + STARTS) + 4 * token
    start = int(load_i32(place))
    length = int(load_i32(place + 4)) - start - 1
    key = _hash(load_i64(op + DATA) + start, length, load_i64(op + ODD))
    slots, mask = load_i64(op + SLOTS), load_i64(op + SLOT_MASK)
    slot = key & mask
    while load_i64(slots + 8 * slot) != 0:
        slot = (slot + 1) & mask
    known = IS_WHOLE if load_i64(op + TAKES_WHOLE) > 0 else 0
    store_i64(slots + 8 * slot, (key & _TAG_BITS) | known | (token + 1))


@compiled
def _enter_merge(op: int, rank: int) -> None:
    """Enter a merge; of equal ones the last counts."""
    merges = load_i64(op + MERGES) + 4 * rank
    left, right = int(load_i32(merges)), int(load_i32(merges + 4 * load_i64(op + MERGE_COUNT)))
    pair = left << ID_BITS | right
    slots, mask = load_i64(op + PAIRS), load_i64(op + PAIR_MASK)
    slot = pair * load_i64(op + ODD) >> 36 & mask
    while True:
        held = load_i64(slots + 8 * slot)
        if held == 0 or held >> RANK_BITS == pair:
            break
        slot = (slot + 1) & mask
    store_i64(slots + 8 * slot, pair << RANK_BITS | (rank + 1))


def index_bytes() -> Any:
    """Build the kernel that fills the tables, whose slots are zeros."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        for token in range(load_i64(op + COUNT)):
            if load_u8(load_i64(op + IS_TEXT) + token) > 0:
                _enter_token(op, token)
        for rank in range(load_i64(op + MERGE_COUNT)):
            _enter_merge(op, rank)
        ids, ranks = load_i64(op + BYTE_IDS), load_i64(op + BYTE_PAIRS)
        for left in range(256):
            for right in range(256):
                first, second = int(load_i32(ids + 4 * left)), int(load_i32(ids + 4 * right))
                rank = rank_of(op, first, second) if min(first, second) >= 0 else NO_RANK
                store_i32(ranks + 4 * (left << 8 | right), rank)

    return kernel
