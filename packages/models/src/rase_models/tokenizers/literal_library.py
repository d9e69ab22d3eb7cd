"""The library that takes the spelling of special tokens for text like any other."""

import secrets

from tokenizers import Tokenizer as Library

from rase_models.tokenizers.renamed_library import renamed_library


def literal_library(library: Library) -> Library:
    """Return a copy that finds no special tokens in texts and whose model makes none of them.

    Models that have special tokens among their own (Unigram, words that are looked up as a whole) have them
    under names that nobody can write, since those are drawn anew each time.
    """
    special = {token.content for token in library.get_added_tokens_decoder().values() if token.special}
    own = special & library.get_vocab(with_added_tokens=False).keys()
    names = {token: secrets.token_hex() for token in own}
    copy = renamed_library(library, names) if own else Library.from_str(library.to_str())
    copy.encode_special_tokens = True
    return copy
