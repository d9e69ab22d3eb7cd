"""The words of an op that ranks logits, besides X, X_STRIDE and N of `abi`; it belongs to no program."""

RANKED_ROWS = 160
RANKED = 168
"""How many tokens of each row are found, 1 to N."""
RANK_TOKENS = 176
"""Address of int32 [rows][ranked], the likeliest first."""
RANK_INFINITE = 184
"""Address of int64 [rows], how many logits are no finite numbers."""
RANK_SUMS = 192
"""Address of float64 [rows][64], sums of the shares of every 64th token, or 0."""
RANK_HEAP = 200
"""Address of int64 [ranked], working memory."""
RANK_REST = 208
"""Address of 16 float32, working memory."""
RANK_SUM_COUNT = 64
"""How many sums a row has."""
