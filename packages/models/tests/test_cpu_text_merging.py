"""Compiled merging gives the ids of the plain one, which is tested against its definition."""

import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import UnencodableText
from rase_models.gguf import MetadataValue
from rase_models.testing_headers import plain_and_compiled
from rase_models.tokenizers import Tokenizer

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
LETTERS = "ab▁é世🦙 \n"
NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6
TEXTS = st.text(st.one_of(st.sampled_from("ab é世🦙\n<"), st.characters(codec="utf-8")), max_size=60)


def _ids(tokenizer: Tokenizer, text: str) -> list[int] | str:
    try:
        return tokenizer.encode(text, add_special_tokens=False)
    except UnencodableText as error:
        return str(error)


def _scored(
    tokens: dict[str, tuple[int, float]], *, has_bytes: bool, unknown: int | None
) -> dict[str, MetadataValue]:
    spelt = (*tokens, *BYTES) if has_bytes else tuple(tokens)
    kinds = [kind for kind, _ in tokens.values()] + [BYTE] * (len(spelt) - len(tokens))
    scores = [score for _, score in tokens.values()] + [0.0] * (len(spelt) - len(tokens))
    return {
        "model": "llama",
        "tokens": spelt,
        "token_type": np.array(kinds, np.int32),
        "scores": np.array(scores, np.float32),
        "add_bos_token": False,
        **({} if unknown is None else {"unknown_token_id": unknown % len(spelt)}),
    }


TOKENS = st.dictionaries(
    st.text(LETTERS, min_size=1, max_size=6),
    st.tuples(st.sampled_from((NORMAL, NORMAL, NORMAL, CONTROL, USER_DEFINED)), st.floats(-4, 4, width=16)),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(TOKENS, st.booleans(), st.none() | st.integers(0, 300), st.lists(TEXTS, max_size=4))
def test_scores_give_the_same_ids_and_errors(
    tokens: dict[str, tuple[int, float]], has_bytes: bool, unknown: int | None, texts: list[str]
) -> None:
    plain, compiled = plain_and_compiled(_scored(tokens, has_bytes=has_bytes, unknown=unknown))
    for text in texts:
        assert _ids(compiled, text) == _ids(plain, text)


MERGES = st.lists(st.lists(st.text(LETTERS, max_size=3), min_size=1, max_size=3).map(" ".join), max_size=40)


@settings(deadline=None)
@given(TOKENS, MERGES, st.lists(TEXTS, max_size=4))
def test_listed_pairs_give_the_same_ids_and_errors(
    tokens: dict[str, tuple[int, float]], merges: list[str], texts: list[str]
) -> None:
    spelt = (*tokens, *BYTES)
    kinds = [kind for kind, _ in tokens.values()] + [BYTE] * 256
    metadata: dict[str, MetadataValue] = {
        "model": "gemma4",
        "tokens": spelt,
        "token_type": np.array(kinds, np.int32),
        "merges": tuple(merges),
        "bos_token_id": 0,
    }
    plain, compiled = plain_and_compiled(metadata)
    for text in texts:
        assert _ids(compiled, text) == _ids(plain, text)


def _large() -> dict[str, MetadataValue]:
    """Return a vocabulary of 20,000 tokens, most of which begin as others do."""
    chance, tokens = random.Random(7), dict[str, tuple[int, float]]()
    parts = list("abcdefghij▁")
    tokens.update(dict.fromkeys(parts, (NORMAL, 0.0)))
    while len(tokens) < 20_000:
        parts.append(chance.choice(parts) + chance.choice(parts))
        if len(parts[-1]) < 12:
            tokens[parts[-1]] = (NORMAL, -float(len(tokens)))
        else:
            parts.pop()
    return _scored(tokens, has_bytes=True, unknown=None)


@pytest.fixture(scope="module")
def large() -> tuple[Tokenizer, Tokenizer]:
    return plain_and_compiled(_large())


def _text(seed: int, size: int) -> str:
    chance = random.Random(seed)
    return "".join(chance.choices("abcdefghij é世", k=size))


def test_a_large_vocabulary_gives_the_same_ids(large: tuple[Tokenizer, Tokenizer]) -> None:
    plain, compiled = large
    for seed, size in enumerate((1, 10, 1000, 20_000)):
        assert compiled.encode(_text(seed, size)) == plain.encode(_text(seed, size))
        assert compiled.decode(compiled.encode(_text(seed, size))) == _text(seed, size)


def test_many_threads_may_encode_at_once(large: tuple[Tokenizer, Tokenizer]) -> None:
    plain, compiled = large
    texts = [_text(seed, 3000) for seed in range(16)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(compiled.encode, texts)) == [plain.encode(text) for text in texts]


@pytest.mark.parametrize("text", ["a", "ab", "\n", "é", "a "])
def test_no_text_takes_quadratic_time(large: tuple[Tokenizer, Tokenizer], text: str) -> None:
    _, compiled = large
    start = time.thread_time()
    assert compiled.decode(compiled.encode(text * 200_000)) == text * 200_000
    assert time.thread_time() - start < 5


WITHOUT_COMPILER = """
import sys
sys.modules["llvmlite"] = None
from pathlib import Path
import numpy as np
from rase_models.gguf import GgufFile
from rase_models.tokenizers import tokenizer_from_gguf
metadata = {"model": "llama", "tokens": ("a", "b", "ab"), "scores": np.zeros(3)}
metadata |= {"add_space_prefix": False, "add_bos_token": False}
named = {f"tokenizer.ggml.{key}": value for key, value in metadata.items()}
tokenizer = tokenizer_from_gguf(GgufFile(Path("m"), (Path("m"),), (0,), 3, 32, named, {}))
tokenizer.compile()
assert tokenizer.encode("abba", add_special_tokens=False) == [2, 1, 0]
"""


def test_without_a_compiler_it_is_done_plainly() -> None:
    command = [sys.executable, "-c", WITHOUT_COMPILER]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("", "")
