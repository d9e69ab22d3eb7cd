"""The library that takes the spelling of special tokens for text like any other."""

import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import Tokenizer as Library


def literal_library(library: Library) -> Library:
    """Return a copy that finds no special tokens in texts and whose model makes none of them.

    Models that have special tokens among their own (Unigram, words that are looked up as a whole) have them
    under names that nobody can write, since those are drawn anew each time.
    """
    special = {token.content for token in library.get_added_tokens_decoder().values() if token.special}
    own = special & library.get_vocab(with_added_tokens=False).keys()
    written = library.to_str()
    copy = Library.from_str(_renamed(json.loads(written), own) if own else written)
    copy.encode_special_tokens = True
    return copy


def _renamed(document: dict[str, Any], own: Iterable[str]) -> str:
    names = {token: f"{secrets.token_hex()} {i}" for i, token in enumerate(own)}
    model = document["model"]
    model["vocab"] = _vocabulary(model["vocab"], names)
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    if "merges" in model:
        inside = len(model.get("continuing_subword_prefix") or "")
        model["merges"] = [
            (left, right)
            for left, right in model["merges"]
            if names.keys().isdisjoint((left, right, left + right[inside:]))
        ]
    for token in document["added_tokens"]:
        token["content"] = names.get(token["content"], token["content"])
    return json.dumps(document)


def _vocabulary(vocabulary: Any, names: Mapping[str, str]) -> Any:
    """Return the tokens under their new names: ids by token, or tokens with scores."""
    if isinstance(vocabulary, dict):
        return {names.get(token, token): i for token, i in vocabulary.items()}
    return [(names.get(token, token), score) for token, score in vocabulary]
