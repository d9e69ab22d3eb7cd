"""Sizes that the kernels are built with and that whoever provides their memory must know."""

from rase_models.backends.base import BLOCK_TOKENS

GROUP_LINE = 64
"""Bytes of the outputs of a group of 16 weight rows for one row."""
ROW_BLOCK = 128
"""Rows of one pass over a chunk's weights: their records stay in the second-level cache."""
GATED_ROW_BLOCK = 64
BLOCK_SHIFT = BLOCK_TOKENS.bit_length() - 1
"""A position's block in its sequence's table is position >> BLOCK_SHIFT."""
IN_BLOCK = BLOCK_TOKENS - 1
"""Its place in the block is position & IN_BLOCK."""
SPARE_ROWS = 8
"""Rows past the last one that a tile may write."""

TILE_QUERIES = 16
"""Queries that share a read of keys and values."""
SPAN = 256
"""Positions over which a softmax is computed at once; spans are merged from left to right."""
SPLIT_ITEMS = 4
"""Attention is split by spans when it has fewer items than so many a thread."""

TILE_HEADER_NBYTES = 16
TILE_NBYTES = 32
SCORE_STRIDE = 4 * SPAN
SCORES_NBYTES = TILE_QUERIES * SCORE_STRIDE
ADDRESSES_NBYTES = 8 * TILE_QUERIES
SUMS_OFFSET = 4 * TILE_QUERIES
MIXED_OFFSET = 8 * TILE_QUERIES


def tile_table_nbytes(rows: int, group: int) -> int:
    """Return the size of the table of query tiles for so many rows and query heads of a KV head."""
    return TILE_HEADER_NBYTES + TILE_NBYTES * rows * (group // TILE_QUERIES + 2)


def span_result_nbytes(value_length: int) -> int:
    """Return the size of a tile's result over a span."""
    return MIXED_OFFSET + 4 * TILE_QUERIES * value_length


def partials_nbytes(threads: int, positions: int, value_length: int) -> int:
    """Return the size of the results over spans that threads leave each other, up to so many positions."""
    spans = -(-positions // SPAN)
    if threads == 1 or spans == 1 or not value_length:
        return 0
    return SPLIT_ITEMS * threads * spans * span_result_nbytes(value_length)


def attention_scratch_nbytes(value_length: int) -> int:
    """Return the scratch memory that a thread needs for attention."""
    return SCORES_NBYTES + ADDRESSES_NBYTES + 2 * span_result_nbytes(value_length)


def linear_scratch_nbytes() -> int:
    """Return the scratch memory that a thread needs for matrix multiplications."""
    return max(ROW_BLOCK * GROUP_LINE, 4 * GATED_ROW_BLOCK * GROUP_LINE)
