"""PLaMo 2's tokenizer against its definition: the best of all ways to write a text."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import UnencodableText
from rase_models.testing_headers import tokenizer_of
from rase_models.tokenizers import Tokenizer

SPECIAL = ("<unk>", "<s>", "</s>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
FIRST = len(SPECIAL) + len(BYTES)
BYTES_SCORE = -1000.0


def _tokenizer(pieces: dict[str, float], *kinds: int, **changes: Any) -> Tokenizer:
    """Return a tokenizer of these tokens and scores, the first ones of these kinds."""
    given = (*kinds, *([1] * (len(pieces) - len(kinds))))
    metadata = {
        "model": "plamo2",
        "tokens": (*SPECIAL, *BYTES, *pieces),
        "token_type": np.array((2, 3, 3, *([6] * 256), *given), np.int32),
        "scores": np.array((*([0.0] * FIRST), *pieces.values()), np.float32),
        **changes,
    }
    return tokenizer_of(metadata)


def _ways(pieces: dict[str, float], text: str) -> Iterator[tuple[tuple[float, tuple[int, ...]], list[str]]]:
    """Yield every way to write a text, with its score and the lengths of its tokens."""
    if not text:
        yield (0.0, ()), []
        return
    for length in range(1, len(text) + 1):
        for (score, lengths), parts in _ways(pieces, text[length:]):
            if text[:length] in pieces:
                yield (score + pieces[text[:length]], (length, *lengths)), [text[:length], *parts]
            if length == 1:
                yield (score + BYTES_SCORE, (0, *lengths)), [text[0], *parts]


@given(
    st.dictionaries(
        st.text("ab界", min_size=1, max_size=4),
        st.integers(-8, 0).map(float) | st.sampled_from((-999.0, -1500.0, 3.0)),
    ),
    st.text("ab界c", max_size=7),
)
def test_a_text_is_written_in_the_best_of_all_ways(pieces: dict[str, float], text: str) -> None:
    # Of equals the one whose first tokens are longer.
    (_, lengths), parts = max(_ways(pieces, text), key=lambda way: way[0])
    expected: list[int] = []
    tokens = list(pieces)
    for length, part in zip(lengths, parts, strict=True):
        data = [len(SPECIAL) + byte for byte in part.encode()]
        expected += data if length == 0 else [FIRST + tokens.index(part)]
    assert _tokenizer(pieces).encode(text) == expected


def test_scores_count_in_ten_thousandths() -> None:
    # Halves are rounded away from zero: 3 * 0.0001 against 2 * 0.0002, and then one more against equals.
    tokenizer = _tokenizer({"a": -0.0001, "b": -0.0001, "c": -0.0001, "ab": -0.00016, "bc": -0.00014})
    assert [tokenizer.id_to_token(i) for i in tokenizer.encode("abc")] == ["a", "bc"]


@pytest.mark.parametrize("score", [-2000.0, -1e9, -np.inf, np.inf])
def test_a_token_of_the_worst_scores_is_never_written(score: float) -> None:
    tokenizer = _tokenizer({"ab": score, "a": -1.0, "b": -1.0})
    assert tokenizer.encode("ab") == [FIRST + 1, FIRST + 2]


@pytest.mark.parametrize("score, taken", [(1e308, True), (-1e308, False)])
def test_scores_that_cannot_be_reckoned_with_are_as_good_as_the_last_that_can(
    score: float, taken: bool
) -> None:
    tokenizer = _tokenizer({"a": 0.0}, scores=np.full(FIRST + 1, score))
    assert (tokenizer.encode("a") == [FIRST]) == taken


def test_a_huge_score_is_taken() -> None:
    assert _tokenizer({"ab": 3e38, "b": -3.0, "abb": 2.0}).encode("abb") == [FIRST, FIRST + 1]


@pytest.mark.parametrize("kind", [2, 3, 5, 6])
def test_tokens_that_are_no_text_are_not_written(kind: int) -> None:
    tokenizer = _tokenizer({"[PAD1]": -1.0, "[": -3.0}, kind)
    ids = tokenizer.encode("[PAD1]", parse_special=False)
    assert ids[0] == FIRST + 1 and FIRST not in ids and tokenizer.decode(ids) == "[PAD1]"


def test_a_mark_of_byte_order_is_text_as_well() -> None:
    tokenizer = _tokenizer({"a": -1.0})
    assert tokenizer.decode(tokenizer.encode("\ufeffa")) == "\ufeffa"


def test_a_space_is_a_space_and_its_sign_is_a_sign() -> None:
    tokenizer = _tokenizer({"▁a": -1.0, " a": -1.0})
    assert tokenizer.encode("▁a a") == [FIRST, FIRST + 1]
    assert tokenizer.decode([FIRST, FIRST + 1]) == "▁a a"


def test_bos_begins_a_text_where_the_file_says_so() -> None:
    assert _tokenizer({"a": -1.0}, add_bos_token=True).encode("a") == [1, FIRST]
    assert _tokenizer({"a": -1.0}).encode_prompt("a") == [FIRST]


def test_a_byte_that_is_missing_is_the_unknown_token_or_named() -> None:
    tokens = (*SPECIAL, "a")
    given = {
        "tokens": tokens,
        "token_type": np.array([2, 3, 3, 1], np.int32),
        "scores": np.zeros(4, np.float32),
    }
    assert _tokenizer({}, **given).encode("ab") == [3, 0]
    with pytest.raises(UnencodableText, match="'b' or its bytes"):
        _tokenizer({}, **given, unknown_token_id=2).encode("ab")


def test_the_time_grows_with_the_text() -> None:
    tokenizer = _tokenizer({"a" * n: -float(n) for n in range(1, 40)} | {"b": -1.0})

    def seconds(size: int) -> float:
        start = time.thread_time()
        tokenizer.encode("a" * size)
        return time.thread_time() - start

    few, many = min(seconds(1000) for _ in range(3)), seconds(16_000)
    assert many < 3 * 16 * few + 0.1
