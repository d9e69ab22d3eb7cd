"""Compiled Unigram and WordPiece give the ids of the library, and the same errors."""

import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import UnencodableText
from rase_models.backends.cpu.token_trie import likeliest_tokens, longest_tokens
from rase_models.gguf import MetadataValue
from rase_models.testing_headers import plain_and_compiled
from rase_models.tokenizers import Tokenizer
from rase_models.tokenizers.charsmap import Charsmap

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
LETTERS = "ab▁é世🦙"
TEXTS = st.text(
    st.one_of(st.sampled_from("abAé世🦙 \n!#İß\u0301\u1b44"), st.characters(codec="utf-8")), max_size=60
)


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
    plain, compiled = plain_and_compiled(
        {**metadata, "remove_extra_whitespaces": merges, "add_space_prefix": adds}
    )
    for text in texts:
        assert _ids(compiled, text) == _ids(plain, text)


@settings(deadline=None, max_examples=60)
@given(TOKENS, st.booleans(), st.booleans(), st.booleans(), st.lists(TEXTS, max_size=4))
def test_wordpiece_gives_the_same_ids_and_errors(
    tokens: dict[str, tuple[int, float]], unknown: bool, lowers: bool, strips: bool, texts: list[str]
) -> None:
    metadata = _vocabulary("bert", tokens, unknown)
    case = {"normalizer.lowercase": lowers, "normalizer.strip_accents": strips}
    plain, compiled = plain_and_compiled({**metadata, **case})
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
    plain, compiled = plain_and_compiled(_large(model))
    for seed, size in enumerate((1, 10, 100, 1000, 20_000)):
        text = "".join(random.Random(seed).choices("abcdefgé世 A!Z", k=size))
        assert compiled.encode(text) == plain.encode(text)


@pytest.mark.parametrize("model", ["t5", "bert"])
@pytest.mark.parametrize("text", ["a", "ab", "\n", "é", "a ", "Z"])
def test_no_text_takes_quadratic_time(model: str, text: str) -> None:
    _, compiled = plain_and_compiled(_large(model))
    start = time.thread_time()
    compiled.encode(text * 200_000)
    assert time.thread_time() - start < 5


@pytest.mark.parametrize("model", ["t5", "bert"])
@pytest.mark.parametrize("text", ["a", "aé", "é", "ab世", ""])
def test_tokens_that_end_within_a_character_are_not_found_in_text(model: str, text: str) -> None:
    odd = {"\udcc3": (NORMAL, -1.0), "a\udcc3": (NORMAL, -1.0), "▁\udce4\udcb8": (USER_DEFINED, -1.0)}
    usual = {"▁a": (NORMAL, -2.0), "a": (NORMAL, -3.0), "b": (NORMAL, -3.0)}
    plain, compiled = plain_and_compiled(_vocabulary(model, {**usual, **odd}, unknown=True))
    assert _ids(compiled, text) == _ids(plain, text)
    assert all(token < 5 for token in compiled.encode(text))


def test_tokens_of_too_many_bytes_are_left_to_the_library() -> None:
    tokens, trees = [bytes(1 << 26)], np.zeros(1, np.int32)
    assert longest_tokens(tokens, trees, None, 100, None) is None
    assert likeliest_tokens(tokens, trees, np.zeros(1), None, -10.0, cuts=False, progress=None) is None


def _charsmap(known: bytes, replacement: bytes, *, turns: bool = False) -> bytes:
    """Return a table of one text of at most three bytes, whose last byte `turns` into itself without end."""
    units, node = [0] + [0xFF] * ((1 << 12) - 1), 0
    for depth, byte in enumerate(known):
        offset = 1 << (8 + depth)
        units[node] |= offset << 10
        node ^= offset ^ byte
        units[node] = byte
    offset = known[-1] if turns else 1 << (8 + len(known))
    units[node] |= offset << 10 | (0 if turns else 1 << 8)
    if not turns:
        units[node ^ offset] = 1 << 31
    data = np.array(units, "<u4").tobytes()
    return len(data).to_bytes(4, "little") + data + replacement + b"\0"


def _normalize(table: bytes, text: str) -> list[str]:
    plain, compiled = Charsmap(table), Charsmap(table)
    compiled.compile()
    return [plain.normalize(text), compiled.normalize(text)]


@pytest.mark.parametrize("known", [b"\xc3", b"\xe4\xb8", b"\xf0", "é".encode()])
@pytest.mark.parametrize("text", ["é", "aé", "世", "é世é", "🦙"])
def test_a_charsmap_may_know_what_ends_within_a_character(known: bytes, text: str) -> None:
    expected = text.encode().replace(known, b"x").decode("utf-8", "replace")
    assert _normalize(_charsmap(known, b"x"), text) == [expected, expected]


def test_a_charsmap_knows_no_texts_without_end() -> None:
    table = _charsmap(b"a", b"x", turns=True)
    start = time.thread_time()
    assert _normalize(table, "a" * 5000) == ["a" * 5000] * 2
    compiled = Charsmap(table)
    compiled.compile()
    assert compiled.normalize("a" * 200_000) == "a" * 200_000
    assert time.thread_time() - start < 10


@pytest.mark.parametrize(("size", "is_known"), [(255, True), (256, False), (100_000, False)])
def test_a_charsmap_replaces_a_character_by_no_long_text(size: int, is_known: bool) -> None:
    expected = "x" * size + "b" if is_known else "b"
    assert _normalize(_charsmap(b"a", b"x" * size), "ab") == [expected, expected]


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
