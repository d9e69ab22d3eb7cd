"""Calls of tools: how each family of models writes them, reading them, and grammars that demand them."""

from rase_models.chat.tool_calls.call_format import Call, CallFormat, MalformedCall
from rase_models.chat.tool_calls.grammar import CallGrammar
from rase_models.chat.tool_calls.reader import CallReader, WholeCallReader
from rase_models.chat.tool_calls.table import call_format
from rase_models.chat.tool_calls.tool import Tool, Tools

__all__ = [
    "Call",
    "CallFormat",
    "CallGrammar",
    "CallReader",
    "MalformedCall",
    "Tool",
    "Tools",
    "WholeCallReader",
    "call_format",
]
