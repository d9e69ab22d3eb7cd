"""Sequences of letters within text; what is expected are llama.cpp's tokens for the same vocabulary."""

import itertools
import time

import numpy as np
import pytest
from rase_models.gguf import MetadataValue
from rase_models.testing_headers import tokenizer_of
from rase_models.tokenizers import Tokenizer
from rase_models.tokenizers.byte_level import CHARACTER_OF_BYTE

MARK = "\ue000"
SIXES = tuple("".join(six) + MARK for six in itertools.product("ACGT", repeat=6))
TAGS = ("<dna>", "</dna>", "<oov>")
WORDS = (*CHARACTER_OF_BYTE.values(), "he", "CC", "CCC")


def _tokenizer(tags: tuple[str, ...] = TAGS, kind: int = 1) -> Tokenizer:
    tokens = (*WORDS, *tags, *SIXES)
    kinds = [kind if token in tags else 1 for token in tokens]
    metadata: dict[str, MetadataValue] = {
        "model": "hybriddna",
        "pre": "qwen2",
        "tokens": tokens,
        "token_type": np.array(kinds, np.int32),
        "merges": ("h e", "C C", "CC C"),
    }
    return tokenizer_of(metadata)


TOKENIZER = _tokenizer()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("he<dna>acgtacCCC</dna>CCC", "he <dna> ACGTAC+ CCCAAA+ </dna> CCC"),
        ("<dna>ACGTNNCCCCCC", "<dna> <oov> CCCCCC+"),
        ("<dna></dna></dna>", "<dna> </dna> < / d n a >"),
        ("<dna><dna>ACG", "<dna> <oov> CGAAAA+"),
        ("<dna>é</dna>he", "<dna> <oov> </dna> he"),
        ("ACGTAC", "A C G T A C"),
    ],
)
def test_letters_between_tags_are_taken_six_at_a_time(text: str, tokens: str) -> None:
    ids = TOKENIZER.encode(text, parse_special=False)
    assert [TOKENIZER.id_to_token(i) for i in ids] == tokens.replace("+", MARK).split()


def test_sequences_decode_to_whole_sixes_of_letters() -> None:
    assert TOKENIZER.decode(TOKENIZER.encode("he <dna>acgtacc</dna>!")) == "he <dna>ACGTACCAAAAA</dna>!"


@pytest.mark.parametrize("tokenizer", [_tokenizer(TAGS[:2]), _tokenizer(kind=3)], ids=["missing", "control"])
def test_without_tags_that_text_may_have_all_is_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<dna>CCC</dna>", parse_special=False)
    assert [tokenizer.id_to_token(i) for i in ids] == [*"<dna>", "CCC", *"</dna>"]


def test_many_sequences_take_time_in_proportion() -> None:
    def seconds(count: int) -> float:
        start = time.thread_time()
        TOKENIZER.encode("<dna>ACGTAC</dna>" * count + "<dna" * count)
        return time.thread_time() - start

    few, many = min(seconds(200) for _ in range(3)), seconds(6400)
    assert many < 3 * 32 * few + 0.1
