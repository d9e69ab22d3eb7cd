"""WordPiece: the longest token that a word begins with, then the longest that the rest begins with."""

from collections.abc import Iterable

from rase_models.tokenizers.gguf_encoder import in_turn
from rase_models.tokenizers.library import NO_TOKEN, text_ids
from rase_models.tokenizers.space import SPACE
from rase_models.tokenizers.vocabulary import Vocabulary

_INSIDE = "##"
_UNKNOWN = " unknown"  # which no word is, since words have no space
_LONGEST_WORD = 100  # BERT's own limit; longer words are unknown


class WordPiece:
    """The tokens of one vocabulary, in which those that begin a word begin with `▁`."""

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool, strip_accents: bool) -> None:
        from tokenizers import Tokenizer, models
        from tokenizers.normalizers import BertNormalizer
        from tokenizers.pre_tokenizers import BertPreTokenizer

        unknown = NO_TOKEN if vocabulary.unknown is None else _UNKNOWN
        model = models.WordPiece(
            _spelt_as_bert_does(vocabulary),
            unk_token=unknown,
            max_input_chars_per_word=_LONGEST_WORD,
            continuing_subword_prefix=_INSIDE,
        )
        self._library = Tokenizer(model)
        self._library.normalizer = BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
        self._library.pre_tokenizer = BertPreTokenizer()

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        Raises UnencodableText for a word that no tokens stand for.
        """
        return in_turn(parts, self._ids)

    def _ids(self, text: str) -> list[int]:
        return text_ids(self._library, text, dict.fromkeys(text.split()))


def _spelt_as_bert_does(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the tokens of text with `##` before those that go on with a word, and nothing before others."""
    spelt = {} if vocabulary.unknown is None else {_UNKNOWN: vocabulary.unknown}
    for token, i in vocabulary.writable().items():
        spelt.setdefault(token[1:] if token.startswith(SPACE) else _INSIDE + token, i)
    return spelt
