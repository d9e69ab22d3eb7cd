"""Bad words as text."""

import pytest
from rase_core.errors import InvalidGenerationConfig
from rase_models.bad_words import spellings


class Letters:
    """A tokenizer of one token for each character, which looks at no special tokens."""

    def encode(self, text: str, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        assert not add_special_tokens
        assert not parse_special
        return [ord(character) for character in text]


def test_a_word_is_spelt_at_the_start_and_after_a_space_each_once() -> None:
    assert spellings(Letters(), ["a", "b", "a"]) == ((97,), (32, 97), (98,), (32, 98))
    assert spellings(Letters(), []) == ()


def test_a_word_with_a_space_is_banned_as_it_is_and_after_another() -> None:
    assert spellings(Letters(), [" a", "a"]) == ((32, 97), (32, 32, 97), (97,))


def test_an_empty_word_is_refused() -> None:
    with pytest.raises(
        InvalidGenerationConfig, match="bad_words: '', expected texts of at least one character"
    ):
        spellings(Letters(), ["a", ""])
