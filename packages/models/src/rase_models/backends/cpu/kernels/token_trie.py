"""Trees of tokens: a hash table of the edges between their beginnings."""

from typing import Any

from rase_models.backends.cpu.simd import compiled, load_i32, load_i64, store_i32, store_i64
from rase_models.backends.cpu.simd.text import load_u8
from rase_models.backends.cpu.trie_abi import (
    COUNT,
    DATA,
    EDGE_MASK,
    EDGES,
    NODE_BITS,
    NODES,
    ODD,
    STARTS,
    TREES,
    VALUES,
)

_NODE_MASK = (1 << NODE_BITS) - 1


@compiled
def child(trie: int, node: int, byte: int) -> int:
    """Return the node that a byte leads to, or 0."""
    key = node << 8 | byte
    edges, mask = load_i64(trie + EDGES), load_i64(trie + EDGE_MASK)
    slot = key * load_i64(trie + ODD) >> 36 & mask
    while True:
        held = load_i64(edges + 8 * slot)
        if held >> NODE_BITS == key and held != 0:
            return int(held & _NODE_MASK)
        if held == 0:
            return 0
        slot = (slot + 1) & mask


@compiled
def value_at(trie: int, node: int) -> int:
    """Return the token that ends at a node, or -1."""
    return int(load_i32(load_i64(trie + VALUES) + 4 * node))


@compiled
def _grown(trie: int, node: int, byte: int) -> int:
    """Return the node that a byte leads to, a new one where there is none."""
    found = child(trie, node, byte)
    if found != 0:
        return found
    key, fresh = node << 8 | byte, load_i64(trie + NODES)
    edges, mask = load_i64(trie + EDGES), load_i64(trie + EDGE_MASK)
    slot = key * load_i64(trie + ODD) >> 36 & mask
    while load_i64(edges + 8 * slot) != 0:
        slot = (slot + 1) & mask
    store_i64(edges + 8 * slot, key << NODE_BITS | fresh)
    store_i64(trie + NODES, fresh + 1)
    return int(fresh)


def grow_trie() -> Any:
    """Build the kernel that enters all tokens into the tree at `op`, whose edges are zeros."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        data, starts = load_i64(op + DATA), load_i64(op + STARTS)
        for token in range(load_i64(op + COUNT)):
            node = int(load_i32(load_i64(op + TREES) + 4 * token))
            if node < 0:
                continue
            place = starts + 4 * token
            for at in range(int(load_i32(place)), int(load_i32(place + 4))):
                node = _grown(op, node, load_u8(data + at))
            if value_at(op, node) < 0:
                store_i32(load_i64(op + VALUES) + 4 * node, token)

    return kernel
