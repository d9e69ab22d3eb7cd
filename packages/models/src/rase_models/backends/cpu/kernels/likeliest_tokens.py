"""Unigram: the tokens whose scores have the highest sum."""

from typing import Any

from rase_models.backends.cpu.encoding_abi import IDS, LENGTH, MEMORY, TEXT, WRITTEN
from rase_models.backends.cpu.kernels.token_trie import child, value_at
from rase_models.backends.cpu.kernels.utf8 import width_of
from rase_models.backends.cpu.simd import (
    compiled,
    load_f64,
    load_i32,
    load_i64,
    store_f64,
    store_i32,
    store_i64,
)
from rase_models.backends.cpu.simd.text import load_u8
from rase_models.backends.cpu.trie_abi import CUTS, SCORES, TRIE, UNKNOWN, UNKNOWN_SCORE

# What the memory holds for a place in a text: the best way to it.
_SCORE, _START, _TOKEN = 0, 8, 12
_PLACE_BYTES = 16


@compiled
def _offer(places: int, end: int, start: int, token: int, score: float) -> None:
    """Let a token be the last one of the way to a place, if there is no better one."""
    place = places + end * _PLACE_BYTES
    if load_i32(place + _START) < 0 or score > load_f64(place + _SCORE):
        store_f64(place + _SCORE, score)
        store_i32(place + _START, start)
        store_i32(place + _TOKEN, token)


@compiled
def _offer_all(op: int, text: int, length: int, start: int) -> None:
    """Offer all tokens that begin at a place, and the unknown one where no token is that one character."""
    trie, scores, places = load_i64(op + TRIE), load_i64(op + SCORES), load_i64(op + MEMORY)
    before = load_f64(places + start * _PLACE_BYTES + _SCORE)
    character = start + width_of(load_u8(text + start))
    node, has_character = 0, False
    for at in range(start, length):
        node = child(trie, node, load_u8(text + at))
        if node == 0:
            break
        token = value_at(trie, node)
        if token >= 0:
            _offer(places, at + 1, start, token, load_f64(scores + 8 * token) + before)
            has_character |= at + 1 == character
    if not has_character:
        unknown, score = load_i64(op + UNKNOWN), load_f64(load_i64(op + UNKNOWN_SCORE))
        _offer(places, character, start, unknown, score + before)


@compiled
def _turn_round(ids: int, end: int) -> None:
    """Put int32 values between two addresses into the opposite order."""
    last = end - 4
    while ids < last:
        kept = load_i32(ids)
        store_i32(ids, load_i32(last))
        store_i32(last, kept)
        ids += 4
        last -= 4


@compiled
def _write(op: int, length: int, out: int) -> int:
    """Write the tokens of the best way to the end, unknown ones side by side once; returns where they end."""
    places, unknown = load_i64(op + MEMORY), load_i64(op + UNKNOWN)
    end, at, follows_unknown = out, length, False
    while at > 0:
        token = int(load_i32(places + at * _PLACE_BYTES + _TOKEN))
        if token < 0:
            return -1
        if token != unknown or not follows_unknown:
            store_i32(end, token)
            end += 4
        follows_unknown = token == unknown
        at = int(load_i32(places + at * _PLACE_BYTES + _START))
    _turn_round(out, end)
    return end


@compiled
def _encode(op: int, text: int, length: int, out: int) -> int:
    """Write the tokens of a text; returns where they end, or -1 where a character has none."""
    places = load_i64(op + MEMORY)
    for place in range(length + 1):
        store_i32(places + place * _PLACE_BYTES + _START, -1)
    store_f64(places + _SCORE, 0.0)
    start = 0
    while start < length:
        _offer_all(op, text, length, start)
        start += width_of(load_u8(text + start))
    return _write(op, length, out)


@compiled
def _is_space(address: int, end: int) -> bool:
    """Tell whether `▁` is at an address."""
    if address + 3 > end or load_u8(address) != 0xE2:
        return False
    return bool(load_u8(address + 1) == 0x96 and load_u8(address + 2) == 0x81)


def likeliest_tokens() -> Any:
    """Build the kernel that writes the ids of a text."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        start, out, cuts = load_i64(op + TEXT), load_i64(op + IDS), load_i64(op + CUTS)
        end = start + load_i64(op + LENGTH)
        while start < end and out >= 0:
            stop = start + 1
            while stop < end and not (cuts > 0 and _is_space(stop, end)):
                stop += 1
            out = _encode(op, start, stop - start, out)
            start = stop
        store_i64(op + WRITTEN, -1 if out < 0 else (out - load_i64(op + IDS)) >> 2)

    return kernel
