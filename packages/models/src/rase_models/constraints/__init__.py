"""Answers held to a format: JSON schemas, patterns, choices and grammars, followed token by token."""

from rase_models.constraints.compiler import CompiledFormat, FormatCompiler
from rase_models.constraints.response_format import FormatKind, ResponseFormat

__all__ = ["CompiledFormat", "FormatCompiler", "FormatKind", "ResponseFormat"]
