"""WordPiece: the longest token that a word begins with, then the longest that the rest begins with."""

import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from rase_core.progress import Progress

from rase_models.tokenizers.gguf_encoder import in_turn
from rase_models.tokenizers.library import NO_TOKEN, text_ids
from rase_models.tokenizers.space import SPACE
from rase_models.tokenizers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

    from rase_models.backends.cpu.token_trie import TrieEncoding

_INSIDE = "##"
_UNKNOWN = " unknown"  # which no word is, since words have no space
_LONGEST_WORD = 100  # BERT's own limit; longer words are unknown
_DEPENDS = "\0"  # which no text has any more
_KEPT_CHARACTERS = 1 << 16


class WordPiece:
    """The tokens of one vocabulary, in which those that begin a word begin with `▁`."""

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool, strip_accents: bool) -> None:
        from tokenizers import Tokenizer, models
        from tokenizers.normalizers import BertNormalizer
        from tokenizers.pre_tokenizers import BertPreTokenizer

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
        self._words = _Words(self._library)
        self._compiled: TrieEncoding | None = None

    def compile(self, progress: Progress | None = None) -> None:
        """Encode by compiled code from now on, where there is a compiler; it gives the same ids, sooner."""
        try:
            from rase_models.backends.cpu.token_trie import longest_tokens
        except ImportError:
            return
        tokens, trees = [b""] * self._size, np.full(self._size, -1, np.int32)
        for token, i in self._spelt.items():
            text = token.removeprefix(_INSIDE)
            if text and token != _UNKNOWN:
                tokens[i], trees[i] = text.encode(), token.startswith(_INSIDE)
        self._compiled = longest_tokens(tokens, trees, self._unknown, _LONGEST_WORD, progress)

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        Raises UnencodableText for a word that no tokens stand for.
        """
        return in_turn(parts, self._ids)

    def _ids(self, text: str) -> list[int]:
        ids = self._compiled_ids(text)
        return text_ids(self._library, text, dict.fromkeys(text.split())) if ids is None else ids

    def _compiled_ids(self, text: str) -> list[int] | None:
        """Return the ids of a text, or None where only the library can tell."""
        if self._compiled is None:
            return None
        words = text.translate(self._words)
        return None if _DEPENDS in words else self._compiled.ids(words)


class _Words(dict[int, str]):
    """What becomes of each character, with spaces before and after it where it is no part of a word.

    The library is asked once for each; characters that may change places with others become `_DEPENDS`.
    """

    def __init__(self, library: "Library") -> None:
        self._library = library

    def __missing__(self, code: int) -> str:
        library = self._library
        normal = library.normalizer.normalize_str(f"a{chr(code)}a")
        found = " ".join(word for word, _ in library.pre_tokenizer.pre_tokenize_str(normal))[1:-1]
        if any(map(unicodedata.combining, found)):
            found = _DEPENDS
        if len(self) < _KEPT_CHARACTERS:
            self[code] = found
        return found


def _spelt_as_bert_does(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the tokens of text with `##` before those that go on with a word, and nothing before others."""
    spelt = {} if vocabulary.unknown is None else {_UNKNOWN: vocabulary.unknown}
    for token, i in vocabulary.writable().items():
        spelt.setdefault(token[1:] if token.startswith(SPACE) else _INSIDE + token, i)
    return spelt
