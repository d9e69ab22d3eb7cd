"""Headers of GGUF files that nobody wrote, and the tokenizers that they describe, for tests."""

from collections.abc import Mapping
from pathlib import Path

from rase_models.gguf import GgufFile, MetadataValue
from rase_models.tokenizers import Tokenizer, tokenizer_from_gguf


def header_of(metadata: Mapping[str, MetadataValue]) -> GgufFile:
    """Return the header of a file without tensors."""
    path = Path("model.gguf")
    return GgufFile(path, (path,), (0,), 3, 32, metadata, {})


def tokenizer_header(**metadata: MetadataValue | None) -> GgufFile:
    """Return a header about a tokenizer: `a__b` is the key `tokenizer.a.b`, None leaves it out."""
    given = {key: value for key, value in metadata.items() if value is not None}
    return header_of({f"tokenizer.{key.replace('__', '.')}": value for key, value in given.items()})


def tokenizer_of(metadata: Mapping[str, MetadataValue | None]) -> Tokenizer:
    """Return a tokenizer: `a` is the key `tokenizer.ggml.a`, None leaves it out."""
    given = {key: value for key, value in metadata.items() if value is not None}
    return tokenizer_from_gguf(header_of({f"tokenizer.ggml.{key}": value for key, value in given.items()}))


def plain_and_compiled(metadata: Mapping[str, MetadataValue | None]) -> tuple[Tokenizer, Tokenizer]:
    """Return a tokenizer that the library runs, and the same in compiled code."""
    plain, compiled = tokenizer_of(metadata), tokenizer_of(metadata)
    compiled.compile()
    return plain, compiled
