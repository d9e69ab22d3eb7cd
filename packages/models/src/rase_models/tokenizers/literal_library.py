"""The library that takes the spelling of special tokens for text like any other."""

import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import Tokenizer as Library

from rase_models.tokenizers.special_tokens import SpecialTokens


def literal_library(library: Library) -> Library:
    """Return a copy that finds no special tokens in texts and whose model makes none of them.

    Models that have special tokens among their own (Unigram, words that are looked up as a whole) have them
    under names that nobody can write, since those are drawn anew each time.
    """
    special = {token.content for token in library.get_added_tokens_decoder().values() if token.special}
    own = special & library.get_vocab(with_added_tokens=False).keys()
    written = library.to_str()
    copy = Library.from_str(_renamed(json.loads(written), _new_names(own)) if own else written)
    copy.encode_special_tokens = True
    return copy


class MarkedLibrary:
    """A copy of a library that finds special tokens by other names, so that their spellings are text."""

    def __init__(self, library: Library) -> None:
        added = library.get_added_tokens_decoder().values()
        self._names = _new_names(token.content for token in added if token.special)
        self._library = Library.from_str(_renamed(json.loads(library.to_str()), self._names))
        self._tokens = SpecialTokens({token.content: i for i, token in enumerate(added)})
        self._texts = [token.content for token in added]

    def text(self, marked: str, mark: str) -> str:
        """Return a marked text with special tokens by their names here, and without the marks."""
        parts = self._tokens.split(marked)
        texts = (part if isinstance(part, str) else self._texts[part] for part in parts)
        return "".join(self._names.get(text, text) for text in texts).replace(mark, "")

    @property
    def library(self) -> Library:
        """The copy."""
        return self._library


def _new_names(tokens: Iterable[str]) -> dict[str, str]:
    return {token: f"{secrets.token_hex()} {i}" for i, token in enumerate(tokens)}


def _renamed(document: dict[str, Any], names: Mapping[str, str]) -> str:
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
