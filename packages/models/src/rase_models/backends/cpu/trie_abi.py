"""The words that Python and the kernels of token trees agree on. All are int64, the names are byte offsets.

A tree has a node for each beginning of a token. Texts are UTF-8.
"""

# A tree: what `grow_trie` fills and the others walk.
TRIE_BYTES = 80
EDGES = 0
"""Address of int64 [EDGE_MASK + 1]: node << 34 | byte << 26 | the node that it leads to; 0: free."""
EDGE_MASK = 8
ODD = 16
"""The odd number that hashes multiply by."""
VALUES = 24
"""Address of int32 [nodes], the token that ends at each, or -1."""
NODES = 32
"""How many nodes there are; before any token is entered, how many roots."""
DATA = 40
"""Address of the bytes of all tokens, one after the other."""
STARTS = 48
"""Address of int32 [COUNT + 1], where each begins in DATA."""
COUNT = 56
TREES = 64
"""Address of int32 [COUNT], the root of each token; those of negative ones are not found."""

NODE_BITS = 26

# The encoding of a text: what follows the words of `encoding_abi`.
ENCODING_BYTES = 88
TRIE = 40
"""Address of the tree."""
UNKNOWN = 48
"""The token of what has no other, or -1."""
SCORES = 56
"""Address of float64 [tokens]."""
UNKNOWN_SCORE = 64
"""Address of the float64 score of a character that has no token."""
CUTS = 72
"""1 where `▁` begins a text of its own."""
MOST_CHARACTERS = 80
"""Of a word; longer ones are unknown."""

MEMORY_BYTES = 16
"""For each byte and once more."""

# The replacing of characters.
REPLACING_BYTES = 80
UNITS = 0
"""Address of uint32 [UNIT_COUNT], the double array (see `charsmap`)."""
UNIT_COUNT = 8
REPLACEMENTS = 16
REPLACEMENT_BYTES = 24
SOURCE = 32
SOURCE_BYTES = 40
TARGET = 48
TARGET_BYTES = 56
"""How many bytes there is room for; then how many there would be, negative where that cannot be told."""

MOST_KNOWN_BYTES = 256
"""Of a text that the double array knows, and of a replacement; longer ones are not known."""

# The spelling of words, with REPLACEMENTS, SOURCE and TARGET as above.
CHARACTER_PAGES = 64
"""Address of int32 [0x110000 >> PAGE_BITS], where so many code points begin in CHARACTERS."""
CHARACTERS = 72
"""Address of int32, what becomes of each: one of the numbers below, or where its text begins + TEXTS_FROM.

The negative of that where the character changes places with others of its sort.
"""
STAYS, GOES, IS_SPACE, IS_WORD, TEXTS_FROM = range(5)
