"""What a GGUF file says about itself when it is registered."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from rase_core.registration import ModelFacts

from rase_models.architectures import build_program, supported_architectures, unsupported
from rase_models.gguf import open_gguf
from rase_models.tokenizers import Tokenizer, fitted, tokenizer_from_gguf

ARCHITECTURE_ALIASES: Mapping[str, frozenset[str]] = MappingProxyType(
    {"llama": frozenset({"llama2", "llama3", "mistral", "mixtral"})}
)
"""Other names for an architecture; the manifest keeps the one given, and it chooses the built-in template."""


def check_architecture(name: str | None) -> None:
    """Check the name of an architecture before there is a file; raises UnsupportedArchitecture."""
    known = {*supported_architectures(), *chain(*ARCHITECTURE_ALIASES.values())}
    if name is not None and name not in known:
        raise unsupported(name)


def describe_gguf(path: Path, tokenizer: Tokenizer | None = None) -> ModelFacts:
    """Read a model's architecture and context length, and check that it can be built and the tokenizer fits.

    Without a tokenizer that is the file's own, which is built for it.

    Raises ModelFileNotFound, UnsupportedFormat, UnsupportedArchitecture, UnsupportedTensorType, InvalidGguf,
    TokenizerError.
    """
    file = open_gguf(path)
    program = build_program(file)
    fitted(tokenizer_from_gguf(file) if tokenizer is None else tokenizer, file, program.vocab_size)
    aliases = ARCHITECTURE_ALIASES.get(program.architecture, frozenset())
    return ModelFacts(program.architecture, program.context_length, aliases)
