"""A heap of keys and what goes with them, two int64 each, with the lowest key at the root."""

from rase_models.backends.cpu.simd import compiled, load_i64, store_i64

ENTRY_BYTES = 16


@compiled
def push(heap: int, count: int, key: int, ends: int) -> None:
    """Add an entry to a heap of so many, which has the lowest key at the root."""
    at = count
    while at > 0:
        parent = (at - 1) >> 1
        if load_i64(heap + parent * ENTRY_BYTES) <= key:
            break
        store_i64(heap + at * ENTRY_BYTES, load_i64(heap + parent * ENTRY_BYTES))
        store_i64(heap + at * ENTRY_BYTES + 8, load_i64(heap + parent * ENTRY_BYTES + 8))
        at = parent
    store_i64(heap + at * ENTRY_BYTES, key)
    store_i64(heap + at * ENTRY_BYTES + 8, ends)


@compiled
def drop_root(heap: int, count: int) -> None:
    """Take the root out of a heap that has `count` entries then."""
    key, ends = load_i64(heap + count * ENTRY_BYTES), load_i64(heap + count * ENTRY_BYTES + 8)
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count:
            second = load_i64(heap + (child + 1) * ENTRY_BYTES)
            if second < load_i64(heap + child * ENTRY_BYTES):
                child += 1
        if load_i64(heap + child * ENTRY_BYTES) >= key:
            break
        store_i64(heap + at * ENTRY_BYTES, load_i64(heap + child * ENTRY_BYTES))
        store_i64(heap + at * ENTRY_BYTES + 8, load_i64(heap + child * ENTRY_BYTES + 8))
        at = child
    store_i64(heap + at * ENTRY_BYTES, key)
    store_i64(heap + at * ENTRY_BYTES + 8, ends)
