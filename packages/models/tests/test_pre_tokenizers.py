"""How text is cut before it is merged."""

import time

import pytest
from rase_models.tokenizers.merging_library import one_after_the_other, splits_of
from rase_models.tokenizers.pre_tokenizers import known_pre_tokenizers, pre_tokenizer

NAMES = [name for name in known_pre_tokenizers() if pre_tokenizer(name).splits]
NASTY = {
    "spaces": " " * 40_000 + "x",
    "digits": "7" * 40_000 + "x",
    "lines": "\n" * 40_000 + "x",
    "letters": "aB" * 20_000,
    "words": "a " * 20_000 + "!",
    "marks": "e" + "\u0301" * 40_000 + "!",
    "signs": "'" * 40_000 + "s",
    "upper": "A" * 40_000 + "1",
    "mixed spaces": " \t" * 20_000 + "x",
}


def _parts(name: str, text: str) -> list[str]:
    step = one_after_the_other(splits_of(pre_tokenizer(name)))
    return [part for part, _ in step.pre_tokenize_str(text)]


@pytest.mark.parametrize("name", NAMES)
def test_cutting_loses_nothing(name: str) -> None:
    text = "Hello, y'all!\r\n\t 1234567 ½ 世界 Äpfel iPhone हिन्दी <sentinel:12> IMGIMGAAZ  x"
    assert "".join(_parts(name, text)) == text


@pytest.mark.parametrize("name", sorted({pre_tokenizer(name): name for name in NAMES}.values()))
@pytest.mark.parametrize("text", NASTY)
def test_no_text_takes_quadratic_time(name: str, text: str) -> None:
    start = time.thread_time()
    _parts(name, NASTY[text])
    assert time.thread_time() - start < 1


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("tiny_aya", "1234567", ["1", "234", "567"]),
        ("tiny_aya", "12345px", ["123", "45", "px"]),
        ("afmoe", "x1234", ["x", "1", "234"]),
        ("superbpe", "ab12345", ["ab", "12", "345"]),
        ("kimi-k2", "ab世界c", ["ab", "世界", "c"]),
        ("gpt-4o", " iPhone's", [" i", "Phone's"]),
        ("deepseek-llm", "a  \nb  ", ["a", "  ", "\n", "b", "  "]),
    ],
)
def test_some_cut_in_ways_of_their_own(name: str, text: str, parts: list[str]) -> None:
    assert _parts(name, text) == parts
