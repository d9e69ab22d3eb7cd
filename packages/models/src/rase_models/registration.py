"""What a GGUF file says about itself when it is registered."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from rase_core.registry import ModelFacts

from rase_models.architectures import build_program
from rase_models.gguf import open_gguf

ARCHITECTURE_ALIASES: Mapping[str, frozenset[str]] = MappingProxyType(
    {"llama": frozenset({"llama2", "llama3", "mistral", "mixtral"})}
)
"""Other names for an architecture; the manifest keeps the one given, and it chooses the built-in template."""


def describe_gguf(path: Path) -> ModelFacts:
    """Read a model's architecture and context length, and check that it can be built.

    Raises ModelFileNotFound, UnsupportedFormat, UnsupportedArchitecture, UnsupportedTensorType, InvalidGguf.
    """
    program = build_program(open_gguf(path))
    aliases = ARCHITECTURE_ALIASES.get(program.architecture, frozenset())
    return ModelFacts(program.architecture, program.context_length, aliases)
