"""BPE over the characters of words, white space left out: that of Jina's Chinese embeddings."""

import re
from collections.abc import Iterable

from rase_models.tokenizers.gguf_encoder import in_turn
from rase_models.tokenizers.merge_table import MergeTable
from rase_models.tokenizers.plain_merging import PlainMerging

# The characters that Unicode calls white space; Python counts four more.
_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


class WordBpe:
    """The merging of one table, word by word."""

    def __init__(self, table: MergeTable, *, lowercase: bool) -> None:
        self._merging = PlainMerging(table)
        self._lowercase = lowercase

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        Raises UnencodableText for a character that neither a token nor byte tokens stand for.
        """
        return in_turn(parts, self._ids)

    def _ids(self, text: str) -> Iterable[int]:
        # One by one, since a text as a whole ends its words with another sigma.
        lowered = "".join(map(str.lower, text)) if self._lowercase else text
        return in_turn(filter(None, _SPACE.split(lowered)), self._merging.ids)
