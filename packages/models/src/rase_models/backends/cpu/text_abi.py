"""The words that Python and the kernels of text agree on. All are int64, the names are byte offsets.

Texts are arrays of int32 code points.
"""

WORD = 8

# An index of texts: what `index_texts` fills and `merge_text` looks into.
INDEX_BYTES = 64
SLOTS = 0
"""Address of int64 [mask + 1]: hash in the upper half, number of a text plus one in the lower; 0: free."""
MASK = 8
CODES = 16
"""Address of all texts, one after the other, and one more code point after each."""
STARTS = 24
"""Address of int32 [count + 1], where each begins in CODES."""
VALUES = 32
"""Address of int32 [count], what each text means; the texts of negative ones are not found."""
COUNT = 40
LONGEST = 48
"""How many code points the longest text has."""
BASE = 56
"""The base of the hash, a number between the code points and PRIME."""

FIRST_ID = 0x110000
"""Above all code points: what stands for ids in texts that are merged."""

PRIME = (1 << 31) - 1

# The merging of a text.
MERGING_BYTES = 112
PIECES = 0
"""Address of the index of the tokens; values are ids."""
COSTS = 8
"""Address of the index of what pairs may merge; values are ranks, the lowest goes first."""
JOINT = 16
"""The code point that COSTS has between the texts of a pair, or 0."""
PAIRS = 24
"""Address of bits, by the hash of two code points (below): whether something may merge between them."""
BYTES = 32
"""Address of int32 [256], the token of each byte, or -1."""
UNKNOWN = 40
"""The token of what has no other, or -1."""
TEXT = 48
LENGTH = 56
IDS = 64
"""Address of the int32 ids to write, four for each code point at most."""
MEMORY = 72
"""Address of MEMORY_BYTES for each code point, aligned to 8."""
WRITTEN = 80
"""How many ids were written; negative where no token stands for a part of the text."""

PAIR_ODD = 88
PAIR_SHIFT = 96
"""The hash of two code points is (left * odd + right) * odd >> shift, in 32 bits."""

MEMORY_BYTES = 64
