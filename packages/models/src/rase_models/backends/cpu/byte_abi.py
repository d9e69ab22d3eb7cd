"""The words that Python and the kernels of byte-level BPE agree on.

All are int64, the names are byte offsets. Texts are UTF-8, with PADDING bytes after them.
"""

PADDING = 8

ENCODING_BYTES = 240

# How texts are cut.
ASCII = 0
"""Address of uint8 [128], the classes of these characters."""
PAGES = 8
"""Address of int32 [0x110000 >> PAGE_BITS], where the classes of so many code points begin in BLOCKS."""
BLOCKS = 16
"""Address of uint8, classes of code points."""
END_CLASS = 24
"""The class of the end of a text."""
START_STATE = 32
TABLES = 40
"""Address of int64 [CUTS], the address of the transitions of each automaton, int32 (see `automaton`)."""
CUTS = 48

PAGE_BITS = 7

# What words become.
SLOTS = 56
"""Address of int64 [SLOT_MASK + 1]; its hash from bit 24 | what is known from 22 | id + 1; 0: free."""
SLOT_MASK = 64
DATA = 72
"""Address of the bytes of all tokens, with one more after each, and PADDING."""
STARTS = 80
"""Address of int32 [COUNT + 1], where each begins in DATA."""
COUNT = 88
IS_TEXT = 96
"""Address of uint8 [COUNT], which are found."""
LONGEST = 104
"""The most bytes of a token."""
PAIRS = 112
"""Address of int64 [PAIR_MASK + 1]; a merge: left id << 43 | right id << 23 | rank + 1; 0: free."""
PAIR_MASK = 120
MERGES = 128
"""Address of int32 [3, MERGE_COUNT], the left, right and joined ids by rank."""
MERGE_COUNT = 136
BYTE_IDS = 144
"""Address of int32 [256], the token of each byte, or -1."""
BYTE_PAIRS = 152
"""Address of int32 [65536], the ranks of two bytes."""
ODD = 160
"""The odd number that hashes multiply by."""
TAKES_WHOLE = 168
"""1 where a word that is a token is that token, whatever the merges say."""

ID_BITS, RANK_BITS = 20, 23
"""The most bits of an id and of a rank."""
NO_RANK = 1 << 30

# One text.
TEXT = 176
PARTS = 184
"""Address of int32: the end of each part, and for an id -1 - id."""
PART_COUNT = 192
ENDS = 200
"""Address of int32 [2, bytes + parts], where words end, and ids as in PARTS."""
ENDS_BYTES = 208
"""The bytes of each of the two."""
IDS = 216
"""Address of the int32 ids to write: one for each byte and each id at most."""
MEMORY = 224
"""Address of MEMORY_BYTES for each byte, aligned to 8."""
WRITTEN = 232
"""How many ids were written; negative where a byte has no token."""

MEMORY_BYTES = 64
