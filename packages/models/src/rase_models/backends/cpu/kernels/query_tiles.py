"""How attention is cut into pieces: tiles of queries, and spans of positions.

A tile is up to 16 queries (row, head of a group) of one sequence, which share every read of keys and
values. The table of a run is made once, by the first op of the program, for each number of query heads in a
group:

    word 0: the number of tiles | word 1: spans that a query is split into, 0 where one thread walks them
    all then for each tile: its first row, its first query counted from that row, its number of queries, its
    last row
"""

from typing import Any

from rase_models.backends.cpu.abi import CHUNKED, HEADS, KV_HEADS, ROWS, TILES, WINDOW
from rase_models.backends.cpu.kernels.claims import claim, finish
from rase_models.backends.cpu.kernels.kv_cache import sequence_of
from rase_models.backends.cpu.kernels.rows import position_of
from rase_models.backends.cpu.shapes import SPAN, SPLIT_ITEMS, TILE_HEADER_NBYTES, TILE_NBYTES, TILE_QUERIES
from rase_models.backends.cpu.simd import compiled, load_i64, store_i64

FIRST_ROW, FIRST_QUERY, QUERIES, LAST_ROW = 0, 8, 16, 24


@compiled
def _sequence_end(context: int, row: int, rows: int) -> int:
    sequence = sequence_of(context, row)
    while row < rows and sequence_of(context, row) == sequence:
        row += 1
    return row


@compiled
def _cut_sequence(tile: int, first: int, last: int, group: int) -> int:
    """Write the tiles of the rows from first to last; returns the end of what was written."""
    queries = (last + 1 - first) * group
    for query in range(0, queries, TILE_QUERIES):
        count = min(TILE_QUERIES, queries - query)
        store_i64(tile + FIRST_ROW, first + query // group)
        store_i64(tile + FIRST_QUERY, query % group)
        store_i64(tile + QUERIES, count)
        store_i64(tile + LAST_ROW, first + (query + count - 1) // group)
        tile += TILE_NBYTES
    return tile


@compiled
def _split(threads: int, items: int, context: int, rows: int) -> int:
    """Return into how many spans to split queries: 0, unless there are too few items for the threads."""
    if threads == 1 or items >= SPLIT_ITEMS * threads:
        return 0
    most = 0
    for row in range(rows):
        most = max(most, position_of(context, row))
    spans = most // SPAN + 1
    return spans if spans > 1 else 0


@compiled
def row_of_query(tile: int, op: int, query: int) -> int:
    """Return the row of a query of a tile."""
    group = load_i64(op + HEADS) // load_i64(op + KV_HEADS)
    return int(load_i64(tile + FIRST_ROW) + (load_i64(tile + FIRST_QUERY) + query) // group)


@compiled
def head_of_query(tile: int, op: int, kv_head: int, query: int) -> int:
    """Return the head of a query of a tile."""
    group = load_i64(op + HEADS) // load_i64(op + KV_HEADS)
    return int(kv_head * group + (load_i64(tile + FIRST_QUERY) + query) % group)


@compiled
def first_seen(op: int, position: int) -> int:
    """Return the first position that a row at a position sees."""
    window = load_i64(op + WINDOW)
    if load_i64(op + CHUNKED):
        return int(position - position % window)
    return max(position + 1 - window, 0) if window > 0 else 0


def cut_queries() -> Any:
    """Build the kernel that writes the table of tiles at TILES, for HEADS query and KV_HEADS key heads."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        if claim(thread, op, context, 1) < 0:
            return
        table, rows = load_i64(op + TILES), load_i64(context + ROWS)
        kv_heads = load_i64(op + KV_HEADS)
        tile, row = table + TILE_HEADER_NBYTES, 0
        while row < rows:
            end = _sequence_end(context, row, rows)
            tile = _cut_sequence(tile, row, end - 1, load_i64(op + HEADS) // kv_heads)
            row = end
        tiles = (tile - table - TILE_HEADER_NBYTES) // TILE_NBYTES
        store_i64(table, tiles)
        store_i64(table + 8, _split(threads, tiles * kv_heads, context, rows))
        finish(op, 1)

    return kernel
