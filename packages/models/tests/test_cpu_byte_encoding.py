"""Compiled byte-level BPE gives the ids of the library, and the same errors."""

import random
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import UnencodableText
from rase_models.backends.cpu.byte_encoding import ByteEncoding
from rase_models.gguf import MetadataValue
from rase_models.testing_headers import plain_and_compiled
from rase_models.tokenizers import Tokenizer
from rase_models.tokenizers.byte_level import CHARACTER_OF_BYTE

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
WAYS = ("gpt-2", "llama-bpe", "qwen2", "gpt-4o", "deepseek-v3", "default", "tiny_aya", "chameleon")
NO_BOS: dict[str, MetadataValue] = {"add_bos_token": False}
LETTERS = "abé世 🦙\n1'<"
TEXTS = st.text(st.one_of(st.sampled_from(LETTERS + "<|s>"), st.characters(codec="utf-8")), max_size=80)


def _spelt(text: str) -> str:
    return "".join(CHARACTER_OF_BYTE[byte] for byte in text.encode())


def _ids(tokenizer: Tokenizer, text: str, *, parse_special: bool) -> list[int] | str:
    try:
        return tokenizer.encode(text, add_special_tokens=False, parse_special=parse_special)
    except UnencodableText as error:
        return str(error)


@st.composite
def vocabularies(draw: st.DrawFn) -> dict[str, MetadataValue]:
    """Return a vocabulary of bytes, one of which may be missing, and tokens that merges lead to or not."""
    lost = draw(st.sets(st.sampled_from([ord("b"), ord("1"), 0xF0, 0xA9]), max_size=1))
    tokens = {CHARACTER_OF_BYTE[byte]: NORMAL for byte in range(256) if byte not in lost}
    for text in draw(st.lists(st.text(LETTERS, min_size=2, max_size=6), max_size=6)):
        tokens[_spelt(text)] = draw(st.sampled_from((NORMAL, CONTROL, USER_DEFINED)))
    tokens |= {"<|s|>": CONTROL, "<s>": USER_DEFINED}
    known, merges = [t for t in tokens if t[0] != "<"], list[str]()
    for _ in range(draw(st.integers(0, 40))):
        left, right = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        merges.append(f"{left} {right}")
        tokens.setdefault(left + right, draw(st.sampled_from((NORMAL,) * 8 + (CONTROL,))))
        known.append(left + right)
    return {
        "model": "gpt2",
        "pre": draw(st.sampled_from(WAYS)),
        "tokens": tuple(tokens),
        "token_type": np.array(list(tokens.values()), np.int32),
        "merges": tuple(merges),
        **NO_BOS,
    }


@settings(deadline=None, max_examples=300)
@given(vocabularies(), st.lists(TEXTS, max_size=4), st.booleans())
def test_all_vocabularies_give_the_same_ids_and_errors(
    metadata: dict[str, MetadataValue], texts: list[str], parse_special: bool
) -> None:
    plain, compiled = plain_and_compiled(metadata)
    for text in texts * 2:  # what was learnt of tokens must not change them
        found = _ids(compiled, text, parse_special=parse_special)
        assert found == _ids(plain, text, parse_special=parse_special), text


@pytest.mark.parametrize("pre", ["gpt-2", "llama-bpe"])
def test_a_byte_without_token_is_named_though_a_whole_word_with_it_is_a_token(pre: str) -> None:
    tokens = (*(c for c in CHARACTER_OF_BYTE.values() if c != "b"), "ab")
    for tokenizer in plain_and_compiled(
        {"model": "gpt2", "pre": pre, "tokens": tokens, "merges": (), **NO_BOS}
    ):
        assert tokenizer.encode("a a")
        with pytest.raises(UnencodableText, match="0x62"):
            tokenizer.encode("ab")


@pytest.mark.parametrize(("tokens", "merges"), [((1 << 20) + 1, 0), (256, (1 << 23) - 1)])
def test_there_is_no_room_for_ids_and_ranks_of_more_bits(tokens: int, merges: int) -> None:
    assert ByteEncoding.has_room_for(tokens - 1, max(merges - 1, 0))
    assert not ByteEncoding.has_room_for(tokens, merges)


def _large(pre: str) -> dict[str, MetadataValue]:
    """Return a vocabulary of 20,000 merges of letters, characters and spaces."""
    chance, merges = random.Random(7), dict[str, str]()
    parts = [CHARACTER_OF_BYTE[byte] for byte in b"abcdefgh \n"] * 4
    parts += [CHARACTER_OF_BYTE[byte] for byte in "é世🦙".encode()]
    while len(merges) < 20_000:
        left, right = chance.choice(parts), chance.choice(parts)
        if len(left + right) < 12 and left + right not in merges:
            merges[left + right] = f"{left} {right}"
            parts.append(left + right)
    tokens = (*CHARACTER_OF_BYTE.values(), *merges)
    return {"model": "gpt2", "pre": pre, "tokens": tokens, "merges": tuple(merges.values()), **NO_BOS}


@pytest.fixture(scope="module", params=["qwen2", "llama-bpe"])
def large(request: pytest.FixtureRequest) -> tuple[Tokenizer, Tokenizer]:
    return plain_and_compiled(_large(request.param))


def _text(seed: int, size: int, spaces: str = "  \n") -> str:
    chance = random.Random(seed)
    return "".join(chance.choices("abcdefgh" * 3 + "é世🦙A1!" + spaces, k=size))


@pytest.mark.parametrize("spaces", ["  \n", ""])
def test_a_large_vocabulary_gives_the_same_ids(large: tuple[Tokenizer, Tokenizer], spaces: str) -> None:
    plain, compiled = large
    for seed, size in enumerate((1, 10, 100, 1000, 20_000)):
        text = _text(seed, size, spaces)
        assert compiled.encode(text) == plain.encode(text)
        assert compiled.decode(compiled.encode(text)) == text


def test_long_words_give_the_same_ids(large: tuple[Tokenizer, Tokenizer]) -> None:
    plain, compiled = large
    for seed, size in enumerate((60, 63, 64, 65, 66, 130, 5000)):
        word = "".join(random.Random(seed).choices("abcdefgh", k=size))
        assert compiled.encode(word) == plain.encode(word)


def test_many_threads_may_encode_at_once(large: tuple[Tokenizer, Tokenizer]) -> None:
    plain, compiled = large
    texts = [_text(seed, 3000) for seed in range(16)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(compiled.encode, texts)) == [plain.encode(text) for text in texts]


@pytest.mark.parametrize("text", ["a", "ab", "\n", "é", "a ", " ", "'", "1", "A"])
def test_no_text_takes_quadratic_time(large: tuple[Tokenizer, Tokenizer], text: str) -> None:
    _, compiled = large
    start = time.thread_time()
    assert compiled.decode(compiled.encode(text * 200_000)) == text * 200_000
    assert time.thread_time() - start < 5
