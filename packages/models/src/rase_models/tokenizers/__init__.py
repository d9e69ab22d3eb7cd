"""Text to token ids and back, from a tokenizer.json or from a GGUF's own vocabulary."""

from rase_models.tokenizers.end_of_generation import end_of_generation_tokens
from rase_models.tokenizers.loading import load_tokenizer, tokenizer_from_gguf
from rase_models.tokenizers.matching import fitted
from rase_models.tokenizers.tokenizer import Tokenizer, TokenStream

__all__ = [
    "TokenStream",
    "Tokenizer",
    "end_of_generation_tokens",
    "fitted",
    "load_tokenizer",
    "tokenizer_from_gguf",
]
