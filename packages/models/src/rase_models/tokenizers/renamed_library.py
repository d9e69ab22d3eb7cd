"""A copy of a library in which tokens have other names."""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer as Library


def renamed_library(library: Library, names: Mapping[str, str]) -> Library:
    """Return a copy in which tokens have other names, also those of its model; no text is merged to them.

    Added tokens are found by their names wherever these are.
    """
    return Library.from_str(_renamed(json.loads(library.to_str()), names))


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
    document["added_tokens"] = [_added_token(token, names) for token in document["added_tokens"]]
    return json.dumps(document)


def _added_token(token: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    if token["content"] not in names:
        return token
    anywhere = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {**token, **anywhere, "content": names[token["content"]]}


def _vocabulary(vocabulary: Any, names: Mapping[str, str]) -> Any:
    """Return the tokens under their new names: ids by token, or tokens with scores."""
    if isinstance(vocabulary, dict):
        return {names.get(token, token): i for token, i in vocabulary.items()}
    return [(names.get(token, token), score) for token, score in vocabulary]
