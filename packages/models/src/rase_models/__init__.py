"""GGUF models: architectures, tokenizers, templates and backends.

Names are imported when they are first used, so that `import rase_models` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rase_models.loading import load_decoder as load_decoder
    from rase_models.tokenizers import load_tokenizer as load_tokenizer

_PLACES = {
    "load_decoder": "rase_models.loading",
    "load_tokenizer": "rase_models.tokenizers",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
