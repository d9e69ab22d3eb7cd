"""GGUF models for rase: load them, turn text into tokens and back, and run the engine.

Nothing is imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rase_models.async_engine import AsyncEngine
    from rase_models.async_stream import AsyncTextStream
    from rase_models.chat.options import ChatOptions
    from rase_models.chat.reply import Reply
    from rase_models.chat.tool_calls import Tool
    from rase_models.constraints import ResponseFormat
    from rase_models.engine import Engine
    from rase_models.gguf import GgufFile, open_gguf
    from rase_models.loading import load_decoder
    from rase_models.session import Session
    from rase_models.session_cache import SessionCache
    from rase_models.text_stream import TextStream
    from rase_models.tokenizers import Tokenizer, load_tokenizer
    from rase_models.typed_answers import AsyncTypedStream, TypedStream, UnfinishedAnswer

__all__ = [
    "AsyncEngine",
    "AsyncTextStream",
    "AsyncTypedStream",
    "ChatOptions",
    "Engine",
    "GgufFile",
    "Reply",
    "ResponseFormat",
    "Session",
    "SessionCache",
    "TextStream",
    "Tokenizer",
    "Tool",
    "TypedStream",
    "UnfinishedAnswer",
    "load_decoder",
    "load_tokenizer",
    "open_gguf",
]

_MODULES = {
    "AsyncEngine": "rase_models.async_engine",
    "AsyncTextStream": "rase_models.async_stream",
    "AsyncTypedStream": "rase_models.typed_answers",
    "ChatOptions": "rase_models.chat.options",
    "Engine": "rase_models.engine",
    "GgufFile": "rase_models.gguf",
    "Reply": "rase_models.chat.reply",
    "ResponseFormat": "rase_models.constraints",
    "Session": "rase_models.session",
    "SessionCache": "rase_models.session_cache",
    "TextStream": "rase_models.text_stream",
    "Tokenizer": "rase_models.tokenizers",
    "Tool": "rase_models.chat.tool_calls",
    "TypedStream": "rase_models.typed_answers",
    "UnfinishedAnswer": "rase_models.typed_answers",
    "load_decoder": "rase_models.loading",
    "load_tokenizer": "rase_models.tokenizers",
    "open_gguf": "rase_models.gguf",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
