"""An index of texts: an open hash table, whose texts are hashed so that the hash of two joins quickly."""

from typing import Any

from rase_models.backends.cpu.simd import compiled, load_i32, load_i64, store_i64
from rase_models.backends.cpu.text_abi import BASE, CODES, COUNT, LONGEST, MASK, PRIME, SLOTS, STARTS, VALUES


@compiled
def times(left: int, right: int) -> int:
    """Return the product of two numbers below PRIME, modulo PRIME."""
    product = left * right
    product = (product & PRIME) + (product >> 31)
    return product - PRIME if product >= PRIME else product


@compiled
def joined(left: int, power: int, right: int) -> int:
    """Return the hash of two texts together; `power` is that of the right one."""
    total = times(left, power) + right
    return total - PRIME if total >= PRIME else total


@compiled
def hash_of(code: int) -> int:
    """Return the hash of a code point."""
    return code + 1


@compiled
def code_at(codes: int, at: int) -> int:
    """Return a code point of a text."""
    return int(load_i32(codes + 4 * at))


@compiled
def _is_text(index: int, text: int, codes: int, start: int, middle: int, end: int, joint: int) -> bool:
    """Tell whether a text of the index is that from start to end, with the joint in the middle if any."""
    at = load_i64(index + CODES) + 4 * int(load_i32(load_i64(index + STARTS) + 4 * text))
    for place in range(start, end):
        if place == middle and joint > 0:
            if int(load_i32(at)) != joint:
                return False
            at += 4
        if int(load_i32(at)) != code_at(codes, place):
            return False
        at += 4
    return True


@compiled
def _length(index: int, text: int) -> int:
    starts = load_i64(index + STARTS) + 4 * text
    return int(load_i32(starts + 4)) - int(load_i32(starts)) - 1


@compiled
def value_of(index: int, key: int, codes: int, start: int, middle: int, end: int, joint: int) -> int:
    """Return the value of the text from start to end, whose hash is `key`; -1 where it has none."""
    length = end - start + (1 if joint > 0 else 0)
    if length > load_i64(index + LONGEST):
        return -1
    slots, mask = load_i64(index + SLOTS), load_i64(index + MASK)
    slot = key & mask
    while True:
        held = load_i64(slots + 8 * slot)
        if held == 0:
            return -1
        text = (held & 0xFFFFFFFF) - 1
        is_alike = held >> 32 == key and _length(index, text) == length
        if is_alike and _is_text(index, text, codes, start, middle, end, joint):
            return int(load_i32(load_i64(index + VALUES) + 4 * text))
        slot = (slot + 1) & mask


@compiled
def _insert(index: int, text: int) -> None:
    start = int(load_i32(load_i64(index + STARTS) + 4 * text))
    codes, length, base = load_i64(index + CODES) + 4 * start, _length(index, text), load_i64(index + BASE)
    key = 0
    for at in range(length):
        key = joined(key, base, hash_of(code_at(codes, at)))
    if value_of(index, key, codes, 0, -1, length, 0) >= 0:
        return  # the first of equal texts counts
    slots, mask = load_i64(index + SLOTS), load_i64(index + MASK)
    slot = key & mask
    while load_i64(slots + 8 * slot) != 0:
        slot = (slot + 1) & mask
    store_i64(slots + 8 * slot, key << 32 | (text + 1))


def index_texts() -> Any:
    """Build the kernel that enters all texts into the index at `op`, whose slots are zeros."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        for text in range(load_i64(op + COUNT)):
            if int(load_i32(load_i64(op + VALUES) + 4 * text)) >= 0:
                _insert(op, text)

    return kernel
