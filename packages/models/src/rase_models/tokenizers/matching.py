"""Whether a tokenizer is the one that a model was made with."""

from rase_core.errors import TokenizerError

from rase_models.gguf import GgufFile
from rase_models.tokenizers.loading import MODELS
from rase_models.tokenizers.tokenizer import Tokenizer
from rase_models.tokenizers.vocabulary import TOKENS_KEY

_SAMPLE = 1000
_ADVICE = "attach the tokenizer.json of the model's own repository"


def check_match(tokenizer: Tokenizer, file: GgufFile, vocab_size: int) -> None:
    """Raise TokenizerError unless a tokenizer fits a model that knows `vocab_size` tokens.

    It must have no more of them, and where the file has a vocabulary, spell most tokens as that does: not
    all, because converters change some.
    """
    if tokenizer.vocab_size > vocab_size:
        raise TokenizerError(
            f"the tokenizer has {tokenizer.vocab_size} tokens, but {file.path} knows only {vocab_size}",
            _ADVICE,
        )
    if file.string("tokenizer.ggml.model", "") in MODELS:
        _check_spelling(tokenizer, file)


def _check_spelling(tokenizer: Tokenizer, file: GgufFile) -> None:
    tokens = file.strings(TOKENS_KEY, ())
    size = min(len(tokens), tokenizer.vocab_size)
    sample = [i for i in range(0, size, max(size // _SAMPLE, 1)) if tokenizer.id_to_token(i) is not None]
    other = [i for i in sample if tokenizer.id_to_token(i) != tokens[i]]
    if 4 * len(other) > len(sample):
        first = other[0]
        raise TokenizerError(
            f"the tokenizer is not that of {file.path}: {len(other)} of {len(sample)} tokens differ, "
            f"token {first} is {tokenizer.id_to_token(first)!r} and not {tokens[first]!r}",
            _ADVICE,
        )
