"""The words that Python and the kernels of text agree on. All are int64, the names are byte offsets.

Texts are arrays of int32 code points.
"""

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

# The merging of a text: what follows the words of `encoding_abi`.
MERGING_BYTES = 104
PIECES = 40
"""Address of the index of the tokens; values are ids."""
COSTS = 48
"""Address of the index of what pairs may merge; values are ranks, the lowest goes first."""
JOINT = 56
"""The code point that COSTS has between the texts of a pair, or 0."""
PAIRS = 64
"""Address of bits, by the hash of two code points (below): whether something may merge between them."""
BYTES = 72
"""Address of int32 [256], the token of each byte, or -1."""
UNKNOWN = 80
"""The token of what has no other, or -1."""
PAIR_ODD = 88
PAIR_SHIFT = 96
"""The hash of two code points is (left * odd + right) * odd >> shift, in 32 bits."""

MEMORY_BYTES = 64
"""For each code point."""
MOST_IDS = 4
"""Of a code point: its bytes."""
