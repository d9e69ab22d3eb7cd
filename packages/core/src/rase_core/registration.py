"""What a model is to be registered as."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rase_core.errors import ArchitectureMismatch, InvalidParameter
from rase_core.manifest import ModelKind, ModelSource
from rase_core.model_file import regular_file
from rase_core.sampling import GenerationConfig

_MOST_CONTEXT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a weights file says about itself; `aliases` are other names for its architecture."""

    architecture: str | None = None
    context_length: int | None = None
    aliases: frozenset[str] = frozenset()


Describe = Callable[[Path], ModelFacts]
"""Reads the facts from a weights file, the first part of a split one; raises a ModelFileError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What is said of a model beside its weights; the fields are those of its manifest.

    Architecture and context length are the file's own where they are None. `defaults` of None are those of
    the manifest that an earlier registration left.
    """

    kind: ModelKind = ModelKind.GENERATOR
    architecture: str | None = None
    context_length: int | None = None
    chat_template: str | None = None
    template_file: Path | None = None
    tokenizer: Path | None = None
    defaults: Mapping[str, object] | None = None
    source: ModelSource | None = None

    def check(self) -> None:
        """Check what needs no weights.

        Raises InvalidParameter for a context length out of range, InvalidGenerationConfig for the defaults,
        ModelFileNotFound for the tokenizer or the template.
        """
        length = self.context_length
        if length is not None and not 1 <= length <= _MOST_CONTEXT:
            raise InvalidParameter("context_length", length, f"a whole number of 1 to {_MOST_CONTEXT}")
        GenerationConfig.from_mapping(self.defaults or {})
        for path in (self.tokenizer, self.template_file):
            if path is not None:
                regular_file(path)

    def completed(self, path: Path, facts: ModelFacts) -> "Registration":
        """Return the registration with a file's facts in place of what was not given.

        Raises ArchitectureMismatch when the given architecture is none of the file's.
        """
        own, given = facts.architecture, self.architecture
        if own is not None and given is not None and given not in {own, *facts.aliases}:
            raise ArchitectureMismatch(path, given, own)
        length = self.context_length if self.context_length is not None else facts.context_length
        return replace(self, architecture=given if given is not None else own, context_length=length)
