"""SentencePiece merging against its plain definition."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_models.gguf import GgufFile, MetadataValue
from rase_models.tokenizers import tokenizer_from_gguf
from rase_models.tokenizers.sentencepiece import merge
from rase_models.tokenizers.special_tokens import SpecialTokens


def _merge_plainly(word: str, pieces: Mapping[str, int], costs: Sequence[float]) -> list[str]:
    """Take the cheapest pair, the leftmost of equals, until none is left."""
    symbols = list(word)
    while True:
        pairs = [(costs[pieces[a + b]], i) for i, (a, b) in enumerate(pairwise(symbols)) if a + b in pieces]
        if not pairs:
            return symbols
        _, i = min(pairs)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


def _file(tokens: list[str], scores: list[float]) -> GgufFile:
    metadata: dict[str, MetadataValue] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tuple(tokens),
        "tokenizer.ggml.scores": np.array(scores, np.float32),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
    }
    path = Path("model.gguf")
    return GgufFile(path, (path,), (0,), 3, 32, metadata, {})


VOCABULARIES = st.lists(st.text("ab▁", min_size=1, max_size=5), unique=True, max_size=30)


@settings(max_examples=500)
@given(VOCABULARIES, st.lists(st.integers(0, 5), min_size=30, max_size=30), st.text("ab▁", max_size=40))
def test_merging_takes_the_best_pair_and_the_leftmost_of_equals(
    tokens: list[str], costs: list[int], word: str
) -> None:
    pieces = {token: i for i, token in enumerate(tokens)}
    assert merge(word, pieces, costs) == _merge_plainly(word, pieces, costs)


@settings(max_examples=300)
@given(VOCABULARIES, st.lists(st.integers(0, 5), min_size=30, max_size=30), st.text("ab ", max_size=40))
def test_cutting_text_at_spaces_changes_no_token(tokens: list[str], costs: list[int], text: str) -> None:
    known = [*dict.fromkeys([*tokens, "a", "b", "▁"])]
    scores = [-float(costs[i % 30]) for i in range(len(known))]
    tokenizer = tokenizer_from_gguf(_file(known, scores))
    pieces = {token: i for i, token in enumerate(known)}
    whole = _merge_plainly(text.replace(" ", "▁"), pieces, [-score for score in scores])
    assert tokenizer.encode(text) == [pieces[symbol] for symbol in whole]


def test_special_tokens_are_found_leftmost_first_then_longest() -> None:
    special = SpecialTokens({"<a>": 1, "<a><b>": 2, "<b>": 3, "b": 4})
    assert list(special.split("x<a><b><b>y<a>b")) == ["x", 2, 3, "y", 1, 4]
    assert list(special.split("")) == []
    assert list(SpecialTokens({}).split("x<a>")) == ["x<a>"]


@given(st.text("<ab>|", max_size=30), st.lists(st.text("<ab>|", min_size=1, max_size=4), unique=True))
def test_splitting_loses_no_text(text: str, tokens: list[str]) -> None:
    names = dict(enumerate(tokens))
    parts = SpecialTokens({token: i for i, token in names.items()}).split(text)
    assert "".join(names[part] if isinstance(part, int) else part for part in parts) == text
