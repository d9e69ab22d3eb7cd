"""Which tokens end an answer."""

from typing import Any

import numpy as np
import pytest
from rase_core.errors import TokenizerError
from rase_models.testing_headers import tokenizer_header
from rase_models.tokenizers import end_of_generation_tokens

CONTROL, NORMAL, USER_DEFINED = 3, 1, 4


def _ends(tokens: tuple[str, ...], kind: int = CONTROL, **keys: Any) -> set[str]:
    kinds = np.full(len(tokens), kind, np.int32)
    file = tokenizer_header(ggml__model="gpt2", ggml__tokens=tokens, ggml__token_type=kinds, **keys)
    return {tokens[i] for i in end_of_generation_tokens(file)}


def test_the_keys_of_the_file_count() -> None:
    keys = {"ggml__eos_token_id": 0, "ggml__eot_token_id": 1, "ggml__eom_token_id": 2}
    assert _ends(("a", "b", "c", "d"), NORMAL, **keys) == {"a", "b", "c"}


@pytest.mark.parametrize("kind", [NORMAL, CONTROL, USER_DEFINED])
@pytest.mark.parametrize("name", ["<|im_end|>", "<end_of_turn>", "<|eot_id|>", "<|end|>", "<|endoftext|>"])
def test_well_known_names_count_whatever_their_kind(name: str, kind: int) -> None:
    assert _ends(("a", name), kind) == {name}


@pytest.mark.parametrize("name", ["</s>", "<eos>", "[EOS]"])
def test_names_that_are_text_elsewhere_count_as_control_tokens_only(name: str) -> None:
    assert _ends(("a", name), CONTROL) == {name}
    assert _ends(("a", name), NORMAL) == set()
    assert _ends(("a", name), USER_DEFINED) == set()


def test_end_is_no_end_where_a_format_has_channels() -> None:
    assert _ends(("<|end|>", "<|return|>", "<|call|>")) == {"<|return|>", "<|call|>"}
    assert _ends(("<|end|>", "<|return|>")) == {"<|end|>", "<|return|>"}


def test_sentencepiece_ends_with_token_two_by_default() -> None:
    file = tokenizer_header(ggml__model="llama", ggml__tokens=("<unk>", "<s>", "end"))
    assert end_of_generation_tokens(file) == {2}
    assert end_of_generation_tokens(tokenizer_header(ggml__model="llama", ggml__tokens=("<unk>",))) == set()


def test_a_file_without_vocabulary_has_what_its_keys_say() -> None:
    assert end_of_generation_tokens(tokenizer_header()) == set()
    assert end_of_generation_tokens(tokenizer_header(ggml__eos_token_id=5)) == {5}


@pytest.mark.parametrize(
    "keys",
    [
        {"ggml__tokens": ("a",), "ggml__eos_token_id": 1},
        {"ggml__tokens": ("a",), "ggml__eot_token_id": "x"},
        {"ggml__tokens": 3},
        {"ggml__tokens": ("a",), "ggml__token_type": "x"},
    ],
)
def test_broken_keys_are_named(keys: dict[str, Any]) -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.ggml"):
        end_of_generation_tokens(tokenizer_header(**keys))
