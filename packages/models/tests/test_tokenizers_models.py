"""Unigram, WordPiece, Gemma 4's BPE, RWKV and PLaMo 2 from GGUF metadata, against llama.cpp's ids."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import TokenizerError, UnencodableText
from rase_models.testing_headers import tokenizer_of
from rase_models.tokenizers import Tokenizer
from rase_models.tokenizers.charsmap import Charsmap
from rase_models.tokenizers.longest_match import escaped_bytes

DATA = json.loads((Path(__file__).parent / "data" / "tokenizer_model_ids.json").read_text(encoding="utf-8"))
SPACES = {f"{merges}-{adds}": (merges, adds) for merges in (True, False) for adds in (True, False)}


def _tokenizer(name: str, **changes: Any) -> Tokenizer:
    """Return a tokenizer of the data; `a__b` is the key `tokenizer.ggml.a.b`."""
    given = DATA[name]
    tokens = tuple(given["tokens"])
    kinds = given.get("kinds", [1] * len(tokens))
    metadata = {
        "model": {"unigram": "t5"}.get(name, name),
        "tokens": tokens,
        "token_type": np.array(kinds, np.int32),
        **({"scores": np.array(given["scores"], np.float32)} if "scores" in given else {}),
        **({"merges": tuple(given["merges"])} if "merges" in given else {}),
        **SPECIAL[name],
        **changes,
    }
    return tokenizer_of({key.replace("__", "."): value for key, value in metadata.items()})


SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "unigram": {"bos_token_id": 0, "eos_token_id": 2, "unknown_token_id": 3, "add_eos_token": False},
    "gemma4": {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0},
    "rwkv": {},
    "whitespace": {"unknown_token_id": 0},
    "plamo2": {},
    "bert": {
        "unknown_token_id": DATA["bert"]["ids"]["[UNK]"],
        "cls_token_id": DATA["bert"]["ids"]["[CLS]"],
        "seperator_token_id": DATA["bert"]["ids"]["[SEP]"],
    },
}


@pytest.mark.parametrize("rules", SPACES)
def test_unigram_chooses_as_llama_cpp_does(rules: str) -> None:
    merges, adds = SPACES[rules]
    tokenizer = _tokenizer("unigram", remove_extra_whitespaces=merges, add_space_prefix=adds)
    for is_compiled in (False, True):
        if is_compiled:
            tokenizer.compile()
        for text, ids in zip(DATA["texts"], DATA["unigram"]["expected"][rules], strict=True):
            assert tokenizer.encode(text, add_special_tokens=False) == ids, text


@pytest.mark.parametrize("name", ["bert", "gemma4", "rwkv", "plamo2"])
def test_other_models_give_the_ids_of_llama_cpp(name: str) -> None:
    tokenizer = _tokenizer(name)
    for is_compiled in (False, True):
        if is_compiled:
            tokenizer.compile()
        for text, ids in zip(DATA["texts"], DATA[name]["expected"], strict=True):
            # No ids are given where llama.cpp strips marks that BERT's own normalisation keeps.
            assert ids is None or tokenizer.encode(text, add_special_tokens=False) == ids, text


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="▁"), max_size=40))
def test_gemma4_rwkv_and_plamo2_are_lossless(text: str) -> None:
    for tokenizer in (GEMMA4, RWKV, PLAMO2):
        ids = tokenizer.encode(text, parse_special=False, add_special_tokens=False)
        assert tokenizer.decode(ids) == text
        stream = tokenizer.detokenizer()
        assert b"".join(map(stream.push, ids)).decode() == text


@pytest.mark.parametrize("case", ["as it is", "lowercase"])
def test_words_without_white_space_merge_as_in_llama_cpp(case: str) -> None:
    tokenizer = _tokenizer("whitespace", normalizer__lowercase=case == "lowercase")
    for text, ids in zip(DATA["texts"], DATA["whitespace"]["expected"][case], strict=True):
        assert tokenizer.encode(text, add_special_tokens=False, parse_special=False) == ids, text
        if case == "as it is":
            assert tokenizer.decode(ids) == "".join(text.split())


def test_words_are_lowered_character_by_character() -> None:
    tokenizer = _tokenizer("whitespace", normalizer__lowercase=True)
    assert tokenizer.decode(tokenizer.encode("ΑΣ İ")) == "ασi\u0307"
    assert tokenizer.decode(tokenizer.encode("a\x1cb\u3000c")) == "a\x1cbc"


GEMMA4, RWKV, PLAMO2 = _tokenizer("gemma4"), _tokenizer("rwkv"), _tokenizer("plamo2")


@given(st.lists(st.sampled_from(["the", "fox", "reading", "12", ","]), max_size=9).map(" ".join))
def test_unigram_and_wordpiece_are_lossless_for_words_that_they_know(text: str) -> None:
    assert UNIGRAM.decode(UNIGRAM.encode(text)) == text
    assert BERT.decode(BERT.encode(text.replace("12", "3").replace("reading", "hello"))).split() == (
        text.replace("12", "3").replace("reading", "hello").split()
    )


UNIGRAM = _tokenizer("unigram", remove_extra_whitespaces=True)
BERT = _tokenizer("bert")


def test_each_model_has_its_own_ends_of_a_text() -> None:
    bert, ids = _tokenizer("bert"), DATA["bert"]["ids"]
    assert bert.encode("hello")[:1] == [ids["[CLS]"]] and bert.encode("hello")[-1:] == [ids["[SEP]"]]
    unigram = _tokenizer("unigram", add_eos_token=True)
    assert unigram.encode("x")[0] != unigram.bos_token_id and unigram.encode("x")[-1] == 2
    assert _tokenizer("gemma4", add_bos_token=False).encode("x")[0] == 1  # whatever the file says
    assert _tokenizer("rwkv").encode("x") == [_tokenizer("rwkv").token_to_id("x")]


def test_unigram_never_makes_control_tokens_of_text() -> None:
    tokenizer = _tokenizer("unigram")
    for text in (" 2", "2", "</s>", "\x00 2", "▁ 2"):
        assert 2 not in tokenizer.encode(text, parse_special=False)


def test_a_byte_that_rwkv_does_not_have_is_named() -> None:
    tokenizer = tokenizer_of({"model": "rwkv", "tokens": ("a", "b")})
    with pytest.raises(UnencodableText, match="byte 0x63"):
        tokenizer.encode("abc")


@pytest.mark.parametrize(
    ("token", "data"),
    [
        ("\\n\\t\\r", b"\n\t\r"),
        ("\\xe4\\x00", b"\xe4\0"),
        ("\\\\x41", b"\\x41"),
        ("\\'", b"'"),
        ("é", "é".encode()),
    ],
)
def test_escapes_are_those_of_python(token: str, data: bytes) -> None:
    assert escaped_bytes(token) == data


def _double_array(table: Mapping[bytes, bytes]) -> bytes:
    """Return a table in SentencePiece's form, its nodes placed wherever they first fit."""
    units, texts = {0: 0}, b""
    bases: set[int] = set()  # no two nodes may have their children in one place

    def place(node: int, keys: Mapping[bytes, bytes]) -> None:
        nonlocal texts
        if not keys:
            return
        labels = sorted({key[0] if key else 0 for key in keys})
        offset = next(
            o
            for o in range(1, 1 << 20)
            if node ^ o not in bases and all(node ^ o ^ c not in units for c in labels)
        )
        bases.add(node ^ offset)
        units[node] |= offset << 10 | (1 << 8 if b"" in keys else 0)
        for label in labels:
            units[node ^ offset ^ label] = label
        if b"" in keys:
            units[node ^ offset] = 1 << 31 | len(texts)
            texts += keys[b""] + b"\0"
        for label in filter(None, labels):
            below = {key[1:]: value for key, value in keys.items() if key[:1] == bytes([label])}
            place(node ^ offset ^ label, below)

    place(0, table)
    size = max(units) + 1
    packed = np.array([units.get(i, 0xFF) for i in range(size)], "<u4").tobytes()
    return len(packed).to_bytes(4, "little") + packed + texts


TABLES = st.dictionaries(
    st.text("aé世\u0301 ", min_size=1, max_size=3), st.text("xyé", max_size=2), min_size=1
)


@given(TABLES, st.text("aé世\u0301 x\0", max_size=20))
def test_a_charsmap_replaces_the_longest_text_that_fits(table: dict[str, str], text: str) -> None:
    charsmap = Charsmap(_double_array({key.encode(): value.encode() for key, value in table.items()}))
    expected, position = "", 0
    while position < len(text):
        fits = [key for key in table if text.startswith(key, position)]
        longest = max(fits, key=len, default=text[position])
        expected += table.get(longest, longest)
        position += len(longest)
    assert charsmap.normalize(text) == expected


@given(st.binary(max_size=200), st.text(max_size=20))
def test_no_charsmap_crashes(data: bytes, text: str) -> None:
    size = len(data) // 8 * 4
    for table in (data, size.to_bytes(4, "little") + data):
        try:
            charsmap = Charsmap(table)
        except ValueError:
            continue
        assert isinstance(charsmap.normalize(text), str)


@pytest.mark.parametrize(
    "data", [b"\x01", b"\x00\x00\x00\x00", b"\x08\x00\x00\x00abcd", b"\x03\x00\x00\x00abcd"]
)
def test_a_charsmap_that_is_cut_off_is_named(data: bytes) -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.ggml\.precompiled_charsmap: a table of"):
        _tokenizer("unigram", precompiled_charsmap=np.frombuffer(data, np.uint8))


def test_a_charsmap_of_other_integers_than_bytes_is_named() -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.ggml\.precompiled_charsmap: a table of"):
        _tokenizer("unigram", precompiled_charsmap=np.full(9, (1 << 64) - 1, np.uint64))
