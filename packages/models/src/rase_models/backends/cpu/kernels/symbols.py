"""The symbols of a word, neighbours of which become one: the lowest rank first, the leftmost of equals."""

from collections.abc import Callable
from typing import TypeAlias

from rase_models.backends.cpu.kernels.heap import drop_root, push
from rase_models.backends.cpu.simd import compiled, load_i32, load_i64, store_i32

# What the memory holds for a symbol, by the place of its first unit in the word; a heap of pairs follows.
END, BEFORE = 0, 4
VALUE, SECOND_VALUE = 8, 12
"""What else a kernel knows of a symbol."""
SYMBOL_BYTES = 16

RankOf: TypeAlias = Callable[[int, int, int, int, int], int]
"""(op, word, memory, left, right): the rank of two neighbours, negative where they may not become one."""
Join: TypeAlias = Callable[[int, int, int, int, int], None]
"""(op, memory, left, right, rank): give the left symbol the values of both."""


@compiled
def get(memory: int, symbol: int, field: int) -> int:
    """Return what is known of a symbol."""
    return int(load_i32(memory + symbol * SYMBOL_BYTES + field))


@compiled
def put(memory: int, symbol: int, field: int, value: int) -> None:
    """Note something of a symbol."""
    store_i32(memory + symbol * SYMBOL_BYTES + field, value)


@compiled
def _consider(
    op: int, word: int, memory: int, left: int, right: int, heap: int, count: int, rank_of: RankOf
) -> int:
    """Enter two neighbours into the heap if they may become one; returns its count."""
    rank = rank_of(op, word, memory, left, right)
    if rank < 0:
        return count
    push(heap, count, rank << 32 | left, right << 32 | get(memory, right, END))
    return count + 1


@compiled
def merge(op: int, word: int, length: int, memory: int, rank_of: RankOf, join: Join) -> None:
    """Merge the symbols of a word, one for each unit with its values, until no two can."""
    heap, count = memory + length * SYMBOL_BYTES, 0
    for at in range(length):
        put(memory, at, END, at + 1)
        put(memory, at, BEFORE, at - 1)
    for at in range(length - 1):
        count = _consider(op, word, memory, at, at + 1, heap, count, rank_of)
    while count > 0:
        key, ends = load_i64(heap), load_i64(heap + 8)
        left, right, end = key & 0xFFFFFFFF, ends >> 32, ends & 0xFFFFFFFF
        count -= 1
        drop_root(heap, count)
        # Either may have merged with another one since.
        if get(memory, left, END) != right or get(memory, right, END) != end:
            continue
        join(op, memory, left, right, key >> 32)
        put(memory, left, END, end)
        put(memory, right, END, 0)  # it is none any more
        if end < length:
            put(memory, end, BEFORE, left)
            count = _consider(op, word, memory, left, end, heap, count, rank_of)
        before = get(memory, left, BEFORE)
        if before >= 0:
            count = _consider(op, word, memory, before, left, heap, count, rank_of)
