"""Compiled Unigram and WordPiece give the ids of the library, and the same errors."""

import random
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import UnencodableText
from rase_models.gguf import GgufFile, MetadataValue
from rase_models.tokenizers import Tokenizer, tokenizer_from_gguf
from rase_models.tokenizers.charsmap import Charsmap

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
LETTERS = "ab▁é世🦙"
TEXTS = st.text(
    st.one_of(st.sampled_from("abAé世🦙 \n!#İß\u0301\u1b44"), st.characters(codec="utf-8")), max_size=60
)


def _tokenizer(metadata: dict[str, MetadataValue]) -> Tokenizer:
    path, named = Path("model.gguf"), {f"tokenizer.ggml.{key}": value for key, value in metadata.items()}
    return tokenizer_from_gguf(GgufFile(path, (path,), (0,), 3, 32, named, {}))


def _both(metadata: dict[str, MetadataValue]) -> tuple[Tokenizer, Tokenizer]:
    plain, compiled = _tokenizer(metadata), _tokenizer(metadata)
    compiled.compile()
    return plain, compiled


def _ids(tokenizer: Tokenizer, text: str) -> list[int] | str:
    try:
        return tokenizer.encode(text, add_special_tokens=False)
    except UnencodableText as error:
        return str(error)


TOKENS = st.dictionaries(
    st.text(LETTERS, min_size=1, max_size=6),
    st.tuples(
        st.sampled_from((NORMAL, NORMAL, NORMAL, CONTROL, USER_DEFINED)),
        st.sampled_from((-1.0, -2.0, -3.0)) | st.floats(-9, 1, width=32),
    ),
    min_size=1,
    max_size=40,
)


def _vocabulary(model: str, tokens: dict[str, tuple[int, float]], unknown: bool) -> dict[str, MetadataValue]:
    spelt = {"<unk>": (UNKNOWN, 0.0), "</s>": (CONTROL, 0.0), **tokens}
    return {
        "model": model,
        "tokens": tuple(spelt),
        "token_type": np.array([kind for kind, _ in spelt.values()], np.int32),
        "scores": np.array([score for _, score in spelt.values()], np.float32),
        "unknown_token_id": 0 if unknown else 1,
        "bos_token_id": 1,
        "eos_token_id": 1,
        "add_bos_token": False,
        "add_eos_token": False,
    }


@settings(deadline=None, max_examples=200)
@given(TOKENS, st.booleans(), st.booleans(), st.booleans(), st.lists(TEXTS, max_size=4))
def test_unigram_gives_the_same_ids_and_errors(
    tokens: dict[str, tuple[int, float]], unknown: bool, merges: bool, adds: bool, texts: list[str]
) -> None:
    metadata = _vocabulary("t5", tokens, unknown)
    plain, compiled = _both({**metadata, "remove_extra_whitespaces": merges, "add_space_prefix": adds})
    for text in texts:
        assert _ids(compiled, text) == _ids(plain, text)


@settings(deadline=None, max_examples=60)
@given(TOKENS, st.booleans(), st.booleans(), st.booleans(), st.lists(TEXTS, max_size=4))
def test_wordpiece_gives_the_same_ids_and_errors(
    tokens: dict[str, tuple[int, float]], unknown: bool, lowers: bool, strips: bool, texts: list[str]
) -> None:
    metadata = _vocabulary("bert", tokens, unknown)
    case = {"normalizer.lowercase": lowers, "normalizer.strip_accents": strips}
    plain, compiled = _both({**metadata, **case})
    for text in texts:
        assert _ids(compiled, text) == _ids(plain, text)


def _large(model: str) -> dict[str, MetadataValue]:
    """Return a vocabulary of 5,000 tokens of a few letters."""
    chance = random.Random(5)
    pieces = dict.fromkeys("▁abcdefgé世!", 1)
    while len(pieces) < 5000:
        pieces["".join(chance.choices("▁abcdefgé世", weights=[1] + [4] * 9, k=chance.randint(1, 7)))] = 1
    tokens = {piece: (NORMAL, round(chance.uniform(-12, -2), 1)) for piece in pieces}
    return _vocabulary(model, tokens, unknown=True)


@pytest.mark.parametrize("model", ["t5", "bert"])
def test_a_large_vocabulary_gives_the_same_ids(model: str) -> None:
    plain, compiled = _both(_large(model))
    for seed, size in enumerate((1, 10, 100, 1000, 20_000)):
        text = "".join(random.Random(seed).choices("abcdefgé世 A!Z", k=size))
        assert compiled.encode(text) == plain.encode(text)


@pytest.mark.parametrize("model", ["t5", "bert"])
@pytest.mark.parametrize("text", ["a", "ab", "\n", "é", "a ", "Z"])
def test_no_text_takes_quadratic_time(model: str, text: str) -> None:
    compiled = _tokenizer(_large(model))
    compiled.compile()
    start = time.thread_time()
    compiled.encode(text * 200_000)
    assert time.thread_time() - start < 5


@settings(deadline=None)
@given(st.binary(max_size=300), st.lists(st.text("aé世 \0x", max_size=20)))
def test_a_charsmap_replaces_the_same_in_both_ways(data: bytes, texts: list[str]) -> None:
    size = len(data) // 8 * 4
    for table in (data, size.to_bytes(4, "little") + data):
        try:
            plain, compiled = Charsmap(table), Charsmap(table)
        except ValueError:
            continue
        compiled.compile()
        for text in texts:
            assert compiled.normalize(text) == plain.normalize(text)
