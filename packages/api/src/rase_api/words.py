"""Bad words as text: the token sequences that would write them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rase_core.errors import UnencodableText
from rase_core.sampling import GenerationConfig

from rase_api.errors import InvalidValue
from rase_api.serving import ServingEngine, Words


def without(
    engine: ServingEngine, model_id: str, config: GenerationConfig, words: Sequence[str]
) -> GenerationConfig:
    """Ban words, at the start of a text and after a space; loads the model when there are any."""
    if not words:
        return config
    banned = tuple(dict.fromkeys(_spellings(engine, model_id, words)))
    return replace(config, bad_words=(*config.bad_words, *banned))


def _spellings(engine: ServingEngine, model_id: str, words: Sequence[str]) -> Iterator[tuple[int, ...]]:
    tokenizer = engine.load(model_id).tokenizer
    for word in words:
        for spelling in (word, f" {word}"):
            yield _tokens(tokenizer, spelling)


def _tokens(tokenizer: Words, word: str) -> tuple[int, ...]:
    try:
        return tuple(tokenizer.encode(word, add_special_tokens=False, parse_special=False))
    except UnencodableText as error:
        raise InvalidValue(f"Invalid value for 'bad_words': {error.message}.", "bad_words") from error
