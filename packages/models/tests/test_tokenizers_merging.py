"""SentencePiece merging and the search for special tokens, against their plain definitions."""

import gc
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_models.gguf import GgufFile, MetadataValue
from rase_models.testing_headers import header_of
from rase_models.tokenizers import tokenizer_from_gguf
from rase_models.tokenizers.merge_table import Neighbours, code_points
from rase_models.tokenizers.plain_merging import Costs, PairsWithin, merge, merge_short
from rase_models.tokenizers.sentencepiece import SentencePieceBpe
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
    return header_of(metadata)


VOCABULARIES = st.lists(st.text("ab▁", min_size=1, max_size=5), unique=True, max_size=30)


@settings(max_examples=500)
@given(VOCABULARIES, st.lists(st.integers(0, 5), min_size=30, max_size=30), st.text("ab▁", max_size=40))
def test_merging_takes_the_best_pair_and_the_leftmost_of_equals(
    tokens: list[str], costs: list[int], word: str
) -> None:
    pieces = {token: i for i, token in enumerate(tokens)}
    expected = _merge_plainly(word, pieces, costs)
    by_token = Costs({token: float(costs[i]) for token, i in pieces.items()})
    assert merge(word, by_token) == merge_short(word, by_token) == expected


@settings(max_examples=300)
@given(VOCABULARIES, st.lists(st.integers(0, 5), min_size=30, max_size=30), st.text("ab ", max_size=40))
def test_cutting_text_at_spaces_changes_no_token(tokens: list[str], costs: list[int], text: str) -> None:
    known = [*dict.fromkeys([*tokens, "a", "b", "▁"])]
    scores = [-float(costs[i % 30]) for i in range(len(known))]
    tokenizer = tokenizer_from_gguf(_file(known, scores))
    pieces = {token: i for i, token in enumerate(known)}
    whole = _merge_plainly(text.replace(" ", "▁"), pieces, [-score for score in scores])
    assert tokenizer.encode(text) == [pieces[symbol] for symbol in whole]


@given(VOCABULARIES, st.text("ab▁世\n", max_size=200))
def test_text_is_cut_only_between_characters_that_no_token_has_side_by_side(
    tokens: list[str], text: str
) -> None:
    codes = code_points("\ud800".join(tokens))
    parts = PairsWithin(Neighbours(codes[:-1], codes[1:])).cut(text)
    assert "".join(parts) == text
    pairs = {pair for token in tokens for pair in pairwise(token)}
    assert pairs.isdisjoint((left[-1], right[0]) for left, right in pairwise(parts))


def test_a_long_word_has_the_tokens_of_its_definition() -> None:
    tokens = ["a", "b", "▁", "aa", "ab", "aab", "bb", "▁a"]
    scores = [-float(i % 3) for i in range(len(tokens))]
    tokenizer = tokenizer_from_gguf(_file(tokens, scores))
    pieces = {token: i for i, token in enumerate(tokens)}
    for text in ("aab" * 300, "ab" * 20, "a" * 63, "a" * 64, "a" * 65, "b a" * 40):
        whole = _merge_plainly(text.replace(" ", "▁"), pieces, [-score for score in scores])
        assert tokenizer.encode(text) == [pieces[symbol] for symbol in whole]


def test_special_tokens_are_found_leftmost_first_then_longest() -> None:
    special = SpecialTokens({"<a>": 1, "<a><b>": 2, "<b>": 3, "b": 4})
    assert list(special.split("x<a><b><b>y<a>b")) == ["x", 2, 3, "y", 1, 4]
    assert list(special.split("")) == []
    assert list(SpecialTokens({}).split("x<a>")) == ["x<a>"]
    assert list(SpecialTokens({"": 0, "<a>": 1}).split("x<a>")) == ["x", 1]
    assert list(SpecialTokens({"": 0}).split("x")) == ["x"]


@given(st.text("<ab>|", max_size=30), st.lists(st.text("<ab>|", min_size=1, max_size=4), unique=True))
def test_splitting_loses_no_text(text: str, tokens: list[str]) -> None:
    names = dict(enumerate(tokens))
    parts = SpecialTokens({token: i for i, token in names.items()}).split(text)
    assert "".join(names[part] if isinstance(part, int) else part for part in parts) == text


@given(st.text("<ab> ", max_size=40), st.lists(st.text("<ab> ", min_size=1, max_size=5), unique=True))
def test_special_tokens_are_found_as_by_trying_all_at_every_place(text: str, tokens: list[str]) -> None:
    ids = {token: i for i, token in enumerate(tokens)}
    longest_first = sorted(tokens, key=len, reverse=True)
    expected: list[int | str] = []
    position = 0
    while position < len(text):
        token = next((token for token in longest_first if text.startswith(token, position)), None)
        if token is not None:
            expected.append(ids[token])
        elif expected and isinstance(expected[-1], str):
            expected[-1] += text[position]
        else:
            expected.append(text[position])
        position += len(token or " ")
    assert list(SpecialTokens(ids).split(text)) == expected


def test_space_after_a_token_that_strips_is_part_of_it() -> None:
    special = SpecialTokens({"<a>": 1, "<b>": 2}, strips=(1,))
    assert list(special.split("<a> \n x<b> y<a>  ")) == [1, "x", 2, " y", 1]


def test_the_merging_is_gone_with_the_last_reference_to_its_tokenizer() -> None:
    def count() -> int:
        return sum(type(found) is SentencePieceBpe for found in gc.get_objects())  # asks no dead proxy

    gc.collect()
    before = count()
    gc.disable()
    try:
        tokenizer = tokenizer_from_gguf(_file(["a", "b", "▁"], [0.0, 0.0, 0.0]))
        assert tokenizer.encode("ab a") and count() == before + 1
        del tokenizer
        assert count() == before
    finally:
        gc.enable()
