"""The lower bound of the tokens of a text: never more than there are, and near enough to be of use."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import InvalidParameter, UnencodableText
from rase_models.gguf import MetadataValue
from rase_models.testing_headers import tokenizer_of
from rase_models.tokenizers import Tokenizer, load_tokenizer
from rase_models.tokenizers.byte_level import CHARACTER_OF_BYTE

JAMO = "\u1112\u1161\u11ab"
TEXTS = st.lists(
    st.one_of(
        st.text("ab ▁\n<s>", max_size=20),
        st.sampled_from(
            ["the", " " * 40, "<s>" * 9, "▁" * 30, "é", "e\u0301", "\u212a" * 20, JAMO * 9, "世界"]
        ),
    )
).map("".join)


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Tokenizer:
    return load_tokenizer(smollm2_path)


@pytest.fixture(scope="module")
def sentencepiece() -> Tokenizer:
    tokens = ("<unk>", "<s>", "a", "b", "▁", "▁▁", "▁▁▁▁", "ab", "abab")
    metadata: dict[str, MetadataValue] = {
        "model": "llama",
        "tokens": tokens,
        "scores": np.arange(len(tokens), dtype=np.float32),
        "token_type": np.array([2, 3, 1, 1, 1, 1, 1, 1, 4], np.int32),
        "unknown_token_id": 0,
        "add_bos_token": False,
    }
    return tokenizer_of(metadata)


def _document(**changes: Any) -> dict[str, Any]:
    spaces = ["Ġ" * n for n in range(2, 9)]
    tokens = [*CHARACTER_OF_BYTE.values(), *spaces, "KK", "KKKK", "<s>"]
    merges = [*(f"{'Ġ' * (n - 1)} Ġ" for n in range(2, 9)), "K K", "KK KK"]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    document = {
        "version": "1.0",
        "added_tokens": [{"id": vocabulary["<s>"], "content": "<s>", **flags}],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": False,
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }
    return document | changes


def _tokenizer(folder: Path, document: dict[str, Any]) -> Tokenizer:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return load_tokenizer(path)


@pytest.fixture(scope="module")
def composing(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return _tokenizer(tmp_path_factory.mktemp("composing"), _document())


@pytest.fixture(scope="module")
def stripping(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    (added,) = _document()["added_tokens"]
    document = _document(added_tokens=[added | {"lstrip": True, "rstrip": True}])
    return _tokenizer(tmp_path_factory.mktemp("stripping"), document)


@given(text=TEXTS)
def test_no_text_has_fewer(
    smollm2: Tokenizer, sentencepiece: Tokenizer, composing: Tokenizer, stripping: Tokenizer, text: str
) -> None:
    for tokenizer in (smollm2, sentencepiece, composing, stripping):
        assert tokenizer.least_tokens(text) <= len(tokenizer.encode(text, add_special_tokens=False))


def test_spaces_that_a_token_swallows_do_not_count(composing: Tokenizer, stripping: Tokenizer) -> None:
    text = "<s>" + " " * 1000
    assert len(stripping.encode(text, add_special_tokens=False)) == 1 == stripping.least_tokens(text)
    assert composing.least_tokens(text) > 100


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFKC"}},
        {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}},
        {
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"String": "a"},
                "behavior": "Removed",
                "invert": False,
            }
        },
    ],
)
def test_nothing_is_said_where_text_may_be_lost(tmp_path: Path, change: dict[str, Any]) -> None:
    assert _tokenizer(tmp_path, _document(**change)).least_tokens("a" * 100_000) == 0


def test_it_is_near_the_truth_and_soon(smollm2: Tokenizer) -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 20_000
    smollm2.least_tokens("")
    start = time.process_time()
    least = smollm2.least_tokens(text)
    assert time.process_time() - start < 0.5
    assert len(smollm2.encode(text)) / 40 < least


def test_other_threads_run_while_a_long_text_is_tokenised(smollm2: Tokenizer) -> None:
    smollm2.encode("a" * 5000)
    done, longest, worker = threading.Event(), 0.0, threading.Thread(target=_encode, args=(smollm2,))
    worker.start()
    start = time.perf_counter()
    while worker.is_alive():
        before = time.perf_counter()
        done.wait(0.001)
        longest = max(longest, time.perf_counter() - before)
    assert longest < max(0.25, (time.perf_counter() - start) / 2)


def _encode(tokenizer: Tokenizer) -> None:
    tokenizer.encode("a" * 1_000_000)


def test_a_long_text_has_the_ids_of_its_parts(smollm2: Tokenizer) -> None:
    part = " the quick brown fox" * 3
    assert smollm2.encode(part * 3000) == smollm2.encode(part) * 3000


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc80é"])
def test_a_lone_surrogate_is_refused(smollm2: Tokenizer, text: str) -> None:
    for ask in (smollm2.encode, smollm2.encode_prompt, smollm2.least_tokens):
        with pytest.raises(UnencodableText, match="lone surrogate"):
            ask(text)


@pytest.mark.parametrize("text", [None, 5, b"hi", ["a"]])
def test_what_is_no_text_is_refused(smollm2: Tokenizer, text: Any) -> None:
    with pytest.raises(InvalidParameter, match="expected a string"):
        smollm2.encode(text)
