"""What holds for every kind of tokenizer: special tokens in text, ways back, streams, and hostile files."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import TokenizerError, UnencodableText
from rase_models.testing_headers import tokenizer_of
from rase_models.tokenizers import Tokenizer
from rase_models.tokenizers.byte_level import CHARACTER_OF_BYTE

DATA = json.loads((Path(__file__).parent / "data" / "tokenizer_model_ids.json").read_text(encoding="utf-8"))
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
SPECIAL = ("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>")
KINDS = (2, 3, 3, 3, 3)
PIECES = ("▁", *"abcdehlorwt\n!<|>/s_nkuim", "ll", "im", "he", "▁he")


def _metadata(model: str, tokens: tuple[str, ...], kinds: tuple[int, ...], **more: Any) -> dict[str, Any]:
    special = {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    kinds = (*kinds, *([1] * (len(tokens) - len(kinds))))
    return {"model": model, "tokens": tokens, "token_type": np.array(kinds, np.int32), **special, **more}


def _spelt(*more: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return (*SPECIAL, *BYTES, *PIECES, *more), (*KINDS, *([6] * 256))


def _scores(size: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return -np.arange(size, dtype=np.float32)


SPELT = _spelt()
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": _metadata(
        "gpt2", (*SPECIAL, *CHARACTER_OF_BYTE.values(), "he"), KINDS, merges=("h e",), pre="qwen2"
    ),
    "llama3": _metadata(
        "gpt2", (*SPECIAL, *CHARACTER_OF_BYTE.values(), "he"), KINDS, merges=("h e",), pre="llama-bpe"
    ),
    "hybriddna": _metadata(
        "hybriddna",
        (*SPECIAL, *CHARACTER_OF_BYTE.values(), "he", "<dna>", "</dna>", "<oov>", "ACGTAC\ue000"),
        KINDS,
        merges=("h e",),
        pre="qwen2",
    ),
    "llama": _metadata("llama", *SPELT, scores=_scores(len(SPELT[0]))),
    "gemma4": _metadata("gemma4", *SPELT, merges=("h e", "l l", "▁ he")),
    "whitespace": _metadata("whitespace", *SPELT, merges=("h e", "l l")),
    "t5": _metadata("t5", *SPELT, scores=_scores(len(SPELT[0])), add_eos_token=False),
    "bert": _metadata("bert", (*SPECIAL, "▁", *(f"▁{c}" for c in PIECES[1:-2]), *PIECES[1:]), KINDS),
    "plamo2": _metadata("plamo2", *SPELT, scores=_scores(len(SPELT[0]))),
    "rwkv": _metadata("rwkv", (*SPECIAL, *(f"\\x{byte:02x}" for byte in range(256)), "he", "hello"), KINDS),
}
LOSSLESS = ("gpt2", "llama3", "llama", "gemma4", "plamo2", "rwkv")


def _tokenizer(family: str, **changes: Any) -> Tokenizer:
    return tokenizer_of({**FAMILIES[family], **changes})


ALL = {family: _tokenizer(family) for family in FAMILIES}
EACH = pytest.mark.parametrize("family", FAMILIES)
PARTS = st.sampled_from((*SPECIAL, "hello", " ", "<|im_", "▁", "<0x0A>")) | st.text(max_size=6)
TEXTS = st.lists(PARTS, max_size=12).map("".join)


@pytest.mark.parametrize("family", LOSSLESS)
@settings(deadline=None)
@given(text=st.text(st.characters(codec="utf-8", exclude_characters="▁"), max_size=60))
def test_what_was_encoded_decodes_to_itself(family: str, text: str) -> None:
    tokenizer = ALL[family]
    ids = tokenizer.encode(text, parse_special=False)
    assert tokenizer.decode(ids) == text
    stream = tokenizer.detokenizer()
    assert b"".join(map(stream.push, ids)).decode() == text


@EACH
@settings(deadline=None)
@given(text=TEXTS)
def test_no_text_becomes_a_control_token_unless_asked(family: str, text: str) -> None:
    tokenizer = ALL[family]
    ids = tokenizer.encode(text, add_special_tokens=False, parse_special=False)
    assert {1, 2, 3, 4}.isdisjoint(ids)


WORDS = ("hello", " ", "world", "##lo", "\n", "hell", "x", "<0x0A>")
CONTROL_WORDS = ("hello", "▁hello", "##lo", "hell", "▁wor", "world", "<0x0A>", "r")
WORD_MERGES = ("h e", "l l", "he ll", "hell o", "▁ hello", "w o", "wo r", "▁ wor", "wor l", "worl d", "l o")


def _with_control_words(family: str, words: tuple[str, ...]) -> dict[str, Any]:
    """Return a vocabulary in which these are control tokens, and that has what merges to them."""
    given = FAMILIES[family]
    space = "Ġ" if "Ġ" in given["tokens"] else "▁"
    merged = tuple(merge.replace("▁", space) for merge in WORD_MERGES)
    kinds = dict(zip(given["tokens"], given["token_type"].tolist(), strict=True))
    joined = ("".join(merge.split(" ")) for merge in merged)
    kinds |= {token: 1 for token in joined if token not in kinds} | dict.fromkeys(
        (word.replace("▁", space) for word in words), 3
    )
    more = {"scores": _scores(len(kinds))} if "scores" in given else {}
    merges = {"merges": merged} if "merges" in given else {}
    return {"tokens": tuple(kinds), "token_type": np.array(list(kinds.values()), np.int32), **more, **merges}


def _check_no_control_token(tokenizer: Tokenizer, changes: dict[str, Any], family: str, text: str) -> None:
    try:
        ids = tokenizer.encode(text, add_special_tokens=False, parse_special=False)
    except UnencodableText:  # a byte that only a control token stands for
        return
    assert not (changes["token_type"][ids] == 3).any()
    assert family not in LOSSLESS or tokenizer.decode(ids) == text


@EACH
@settings(deadline=None, max_examples=15)
@given(
    is_compiled=st.booleans(),
    words=st.lists(st.sampled_from(CONTROL_WORDS), min_size=1, unique=True).map(tuple),
    texts=st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map("".join), min_size=1, max_size=8),
)
def test_no_word_becomes_a_control_token(
    family: str, is_compiled: bool, words: tuple[str, ...], texts: list[str]
) -> None:
    changes = _with_control_words(family, words)
    tokenizer = _tokenizer(family, **changes)
    if is_compiled:
        tokenizer.compile()
    for text in texts:
        _check_no_control_token(tokenizer, changes, family, text)


@EACH
def test_an_unknown_token_that_ends_answers_is_never_text(family: str) -> None:
    tokenizer = _tokenizer(family, unknown_token_id=2)
    try:
        ids = tokenizer.encode("hello 🦙 \x00", add_special_tokens=False, parse_special=False)
    except UnencodableText:
        return
    assert 2 not in ids


@EACH
def test_control_tokens_are_found_where_asked(family: str) -> None:
    tokenizer = ALL[family]
    ids = tokenizer.encode("<|im_start|>he<|im_end|>he", add_special_tokens=False)
    assert ids[0] == 3 and ids.count(4) == 1
    assert tokenizer.decode(ids).replace(" ", "") == "hehe"


@EACH
def test_a_stream_takes_the_same_time_for_each_token(family: str) -> None:
    ids = ALL[family].encode("hello world! " * 40, add_special_tokens=False)

    def seconds(count: int) -> float:
        stream, start = ALL[family].detokenizer(), time.thread_time()
        for _ in range(count):
            for token in ids:
                stream.push(token)
        return time.thread_time() - start

    few, many = min(seconds(2) for _ in range(3)), seconds(64)
    assert many < 4 * 32 * few + 0.1


def _longer(family: str, size: int) -> dict[str, Any]:
    """Return a vocabulary with one more token, which has so many characters."""
    given = FAMILIES[family]
    tokens = (*given["tokens"], "🦙" * size)
    more = {"scores": _scores(len(tokens))} if "scores" in given else {}
    return {"tokens": tokens, "token_type": np.append(given["token_type"], np.int32(1)), **more}


@EACH
def test_a_long_token_does_no_harm_and_a_huge_one_is_named(family: str) -> None:
    tokenizer = _tokenizer(family, **_longer(family, 1024))
    tokenizer.compile()
    assert tokenizer.encode("hello" * 2000, add_special_tokens=False)
    with pytest.raises(TokenizerError, match=r"tokenizer\.ggml\.tokens: token \d+ has 1000000 characters"):
        _tokenizer(family, **_longer(family, 1_000_000))


@pytest.mark.parametrize("model", ["none", "no_vocab", "test", "plamo3"])
def test_an_unknown_model_is_named_with_the_known_ones(model: str) -> None:
    known = "gpt2, llama, gemma4, t5, bert, rwkv, whitespace, plamo2, hybriddna"
    with pytest.raises(TokenizerError, match=rf"unknown tokenizer model '{model}' .* known: {known}"):
        _tokenizer("gpt2", model=model)


HOSTILE: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "tokens": lambda given: {"tokens": (*given["tokens"][:-1], given["tokens"][7])},
    "token_type": lambda given: {"token_type": given["token_type"][:-1]},
    "bos_token_id": lambda given: {"bos_token_id": len(given["tokens"])},
    "unknown_token_id": lambda given: {"unknown_token_id": -1},
}


@pytest.mark.parametrize("key", HOSTILE)
@EACH
def test_what_contradicts_itself_is_named_by_its_key(family: str, key: str) -> None:
    with pytest.raises(TokenizerError, match=rf"tokenizer\.ggml\.{key}"):
        _tokenizer(family, **HOSTILE[key](FAMILIES[family]))


@pytest.mark.parametrize("family", ["llama", "t5", "plamo2"])
@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf, 3e38, -3e38])
def test_scores_without_end_are_named_or_taken(family: str, score: float) -> None:
    scores = _scores(len(SPELT[0]))
    scores[-20:] = score
    try:
        tokenizer = _tokenizer(family, scores=scores)
    except TokenizerError as error:
        assert "tokenizer.ggml.scores" in str(error)
        return
    assert not np.isnan(score)
    assert tokenizer.decode(tokenizer.encode("hello world", parse_special=False)) == "hello world"


CYCLES = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(PIECES)).map(" ".join), max_size=20)


@pytest.mark.parametrize("family", ["gpt2", "llama3", "hybriddna", "gemma4", "whitespace"])
@settings(deadline=None)
@given(merges=CYCLES, text=st.text("helo wrd\n", max_size=40))
def test_merges_in_a_circle_end(family: str, merges: list[str], text: str) -> None:
    merges = [*merges, "he l", "h el", "l l", "ll l", "l ll", "a a", "a a"]
    try:
        tokenizer = _tokenizer(family, merges=tuple(merges))
        tokenizer.compile()
        ids = tokenizer.encode(text, add_special_tokens=False)
    except TokenizerError as error:
        assert "tokenizer.ggml.merges" in str(error)
        return
    spaced = tokenizer.decode(ids).replace("▁", " ")  # a merge may make of spaces what is no token
    assert spaced.split() == text.split() or family == "whitespace"
