"""Bad words that a request gives as texts."""

from collections.abc import Sequence

from rase_core.errors import UnencodableText
from rase_core.sampling import GenerationConfig
from rase_models.bad_words import spellings

from rase_api.errors import InvalidValue
from rase_api.serving import ServingEngine


def without(
    engine: ServingEngine, model_id: str, config: GenerationConfig, words: Sequence[str]
) -> GenerationConfig:
    """Ban words, at the start of a text and after a space; loads the model when there are any."""
    if not words:
        return config
    try:
        return config.merged({"bad_words": spellings(engine.load(model_id).tokenizer, words)})
    except UnencodableText as error:
        raise InvalidValue(f"Invalid value for 'bad_words': {error.message}.", "bad_words") from error
