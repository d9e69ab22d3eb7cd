"""WordPiece: the longest token that a word begins with, then the longest that the rest begins with."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from rase_core.progress import Progress

from rase_models.tokenizers.gguf_encoder import in_turn
from rase_models.tokenizers.library import NO_TOKEN, text_ids
from rase_models.tokenizers.pieces import spellable
from rase_models.tokenizers.space import SPACE
from rase_models.tokenizers.vocabulary import Vocabulary
from rase_models.tokenizers.word_characters import ASKS, asked, word_kinds

if TYPE_CHECKING:
    from rase_models.backends.cpu.replacing import Replacing
    from rase_models.backends.cpu.token_trie import TrieEncoding

_INSIDE = "##"
_UNKNOWN = " unknown"  # which no word is, since words have no space
_LONGEST_WORD = 100  # BERT's own limit; longer words are unknown


class WordPiece:
    """The tokens of one vocabulary, in which those that begin a word begin with `▁`."""

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool, strip_accents: bool) -> None:
        from tokenizers import Tokenizer, models
        from tokenizers.normalizers import BertNormalizer
        from tokenizers.pre_tokenizers import BertPreTokenizer

        self._sorts = strip_accents  # which decomposes characters first
        self._unknown, self._size = vocabulary.unknown, len(vocabulary.tokens)
        self._spelt = _spelt_as_bert_does(vocabulary)
        model = models.WordPiece(
            self._spelt,
            unk_token=NO_TOKEN if vocabulary.unknown is None else _UNKNOWN,
            max_input_chars_per_word=_LONGEST_WORD,
            continuing_subword_prefix=_INSIDE,
        )
        self._library = Tokenizer(model)
        self._library.normalizer = BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
        self._library.pre_tokenizer = BertPreTokenizer()
        self._spelling: Replacing | None = None
        self._compiled: TrieEncoding | None = None

    def compile(self, progress: Progress | None = None) -> None:
        """Encode by compiled code from now on, where there is a compiler; it gives the same ids, sooner."""
        try:
            from rase_models.backends.cpu.replacing import by_words
            from rase_models.backends.cpu.token_trie import longest_tokens
        except ImportError:
            return
        tokens, trees = [b""] * self._size, np.full(self._size, -1, np.int32)
        for token, i in self._spelt.items():
            text = token.removeprefix(_INSIDE)
            if text and token != _UNKNOWN:
                tokens[i], trees[i] = text.encode(), token.startswith(_INSIDE)
        kinds = word_kinds()
        codes = np.flatnonzero(kinds == ASKS).tolist()
        texts = dict(zip(codes, asked(self._library, codes), strict=True))
        self._spelling = by_words(kinds, texts, sorts=self._sorts, progress=progress)
        self._compiled = longest_tokens(tokens, trees, self._unknown, _LONGEST_WORD, progress)

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        Raises UnencodableText for a word that no tokens stand for.
        """
        return in_turn(parts, self._ids)

    def _ids(self, text: str) -> list[int]:
        words = None if self._spelling is None else self._spelling.of(text.encode())
        ids = None if words is None or self._compiled is None else self._compiled.ids(words)
        return text_ids(self._library, text, dict.fromkeys(text.split())) if ids is None else ids


def _spelt_as_bert_does(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the tokens of text with `##` before those that go on with a word, and nothing before others."""
    spelt = {} if vocabulary.unknown is None else {_UNKNOWN: vocabulary.unknown}
    for token, i in spellable(vocabulary.writable()).items():
        spelt.setdefault(token[1:] if token.startswith(SPACE) else _INSIDE + token, i)
    return spelt
