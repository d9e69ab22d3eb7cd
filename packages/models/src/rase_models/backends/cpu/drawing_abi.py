"""The words of an op that draws tokens, besides X, X_STRIDE and N of `abi`; it belongs to no program."""

DRAWN = 160
"""How many tokens are drawn."""
DRAWN_ROWS = 168
"""Address of int64 [drawn], the rows."""
DRAWN_TOKENS = 176
"""Address of int32 [drawn], what is drawn."""
DRAW_WAYS = 184
"""Address of float64 [drawn][6], how; below."""
DRAW_MEMORY = 192
"""Address of working memory, `memory_bytes`."""
DRAW_PLACES = 200
"""How many places its arrays have, `places_for` the rows."""

WAY_NUMBERS = 6
WAY_TOP_K, WAY_TARGET, WAY_TOP_P, WAY_MIN_P, WAY_TEMPERATURE, WAY_UNIFORM = range(0, 8 * WAY_NUMBERS, 8)
"""Byte offsets in a way. The target is what the shares of those left are to reach, infinity where all may be
left; with a top_k it follows from top_p."""

# Working memory.
BUCKETS = 4096
"""Logits are counted by how far they are below the largest; in the last one are all that are further."""
KEY_DIGITS, DIGIT_VALUES = 4, 256
"""Keys are sorted by the order of their logits, which has so many digits of so many values."""
REST = 0
"""16 float32: the end of a row."""
BUCKET_NUMBERS = 64
"""16 int32."""
BUCKET_COUNTS = 128
"""int32 [BUCKETS]"""
DIGIT_COUNTS = BUCKET_COUNTS + 4 * BUCKETS
"""int64 [KEY_DIGITS][DIGIT_VALUES]"""
DIGIT_FIRSTS = DIGIT_COUNTS + 8 * KEY_DIGITS * DIGIT_VALUES
DIGIT_NEXTS = DIGIT_FIRSTS + 8 * DIGIT_VALUES
"""int64 [DIGIT_VALUES], where keys of a value begin, and where the next one goes."""
DIGIT_LINES = DIGIT_NEXTS + 8 * DIGIT_VALUES
"""int64 [DIGIT_VALUES][8], keys that are not written yet."""
ARRAYS = DIGIT_LINES + 64 * DIGIT_VALUES
"""Two of int64 [n] for keys, then float64 [n] for shares, then float32 [n] for logits in order."""


def places_for(size: int) -> int:
    """Return how many places an array has for so many logits, with room for whole vectors."""
    return (size + 31) & ~15


def memory_bytes(size: int) -> int:
    """Return the bytes of working memory for rows of so many logits."""
    return ARRAYS + 28 * places_for(size)
