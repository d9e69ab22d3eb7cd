"""Whether a tokenizer is the one that a model was made with."""

from rase_core.errors import TokenizerError

from rase_models.gguf import GgufFile
from rase_models.tokenizers.loading import MODELS
from rase_models.tokenizers.tokenizer import Tokenizer
from rase_models.tokenizers.vocabulary import TOKENS_KEY

_SAMPLE = 1000
_ADVICE = "attach the tokenizer.json of the model's own repository"


def fitted(tokenizer: Tokenizer, file: GgufFile, vocab_size: int) -> Tokenizer:
    """Return a tokenizer for a model that knows `vocab_size` tokens; TokenizerError for another model's.

    Tokens that were added for other models of the family (Gemma's for images) are left out, so that their
    spelling is text. Then it must have no more than the model, and where the file has a vocabulary, spell
    most tokens as that does: not all, because converters change some.
    """
    narrowed = tokenizer.narrowed(vocab_size)
    if _knows_more(narrowed, vocab_size) or _is_numbered_otherwise(tokenizer, file, vocab_size):
        raise TokenizerError(
            f"the tokenizer has {tokenizer.vocab_size} tokens, but {file.path} knows only {vocab_size}",
            _ADVICE,
        )
    if file.string("tokenizer.ggml.model", "") in MODELS:
        _check_spelling(narrowed, file)
    return narrowed


def _knows_more(tokenizer: Tokenizer, vocab_size: int) -> bool:
    """Tell whether a tokenizer has, or puts before a text, a token that the model does not know."""
    return max(tokenizer.vocab_size, (tokenizer.bos_token_id or 0) + 1) > vocab_size


def _is_numbered_otherwise(tokenizer: Tokenizer, file: GgufFile, vocab_size: int) -> bool:
    """Tell whether the model knows, by another number, one of the tokens from `vocab_size` on."""
    beyond = {tokenizer.id_to_token(token) for token in range(vocab_size, tokenizer.vocab_size)}
    return not beyond.isdisjoint(file.strings(TOKENS_KEY, ()))


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
