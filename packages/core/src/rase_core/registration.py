"""What a model is to be registered as."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from rase_core.errors import ArchitectureMismatch, InvalidParameter
from rase_core.manifest import ModelKind, ModelSource
from rase_core.model_file import regular_file
from rase_core.sampling import GenerationConfig

_MOST_CONTEXT = 2**31 - 1

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a weights file says about itself; `aliases` are other names for its architecture."""

    architecture: str | None = None
    context_length: int | None = None
    aliases: frozenset[str] = frozenset()


Describe = Callable[[Path, Path | None], ModelFacts]
"""Reads the facts from a weights file, the first part of a split one, and checks that a tokenizer fits it.

The tokenizer is None where the file's own counts. Raises a ModelFileError.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What is said of a model beside its weights; the fields are those of its manifest.

    Architecture and context length are the file's own where they are None, the kind is that of a generator.
    What is None when a model is registered again is what it was before.
    """

    kind: ModelKind | None = None
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

        Raises ArchitectureMismatch when the given architecture is none of the file's, InvalidParameter for a
        context that is longer than the file's.
        """
        own, given = facts.architecture, self.architecture
        if own is not None and given is not None and given not in {own, *facts.aliases}:
            raise ArchitectureMismatch(path, given, own)
        most, length = facts.context_length, self.context_length
        if most is not None and length is not None and length > most:
            raise InvalidParameter("context_length", length, f"1 to {most}, the model's own")
        return replace(
            self,
            architecture=given if given is not None else own,
            context_length=length if length is not None else most,
        )

    def over(self, earlier: "Registration") -> "Registration":
        """Return the registration with an earlier one's settings in place of what was not given.

        A template that is given takes the place of a text and of a file.
        """
        has_template = self.chat_template is not None or self.template_file is not None
        template = self if has_template else earlier
        return Registration(
            kind=self.kind or earlier.kind,
            architecture=_first(self.architecture, earlier.architecture),
            context_length=_first(self.context_length, earlier.context_length),
            chat_template=template.chat_template,
            template_file=template.template_file,
            tokenizer=_first(self.tokenizer, earlier.tokenizer),
            defaults=_first(self.defaults, earlier.defaults),
            source=_first(self.source, earlier.source),
        )

    def within(self, facts: ModelFacts) -> "Registration":
        """Return what of the registration is true of a file that may have changed since."""
        own, length = facts.architecture, self.context_length
        known = self.architecture if own is None or self.architecture in {own, *facts.aliases} else None
        if length is not None and facts.context_length is not None:
            length = min(length, facts.context_length)
        return replace(self, architecture=known, context_length=length)


def _first(given: _T | None, earlier: _T | None) -> _T | None:
    return given if given is not None else earlier
