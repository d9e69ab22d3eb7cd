"""What a model is to be registered as."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from rase_core.errors import ArchitectureMismatch, InvalidParameter
from rase_core.manifest import FileFacts, ModelKind, ModelSource
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


@dataclass(frozen=True, slots=True)
class IfNew:
    """What a model gets when it is registered first, and not again: settings, and an alias if that is free.

    Raises InvalidGenerationConfig for the defaults.
    """

    defaults: Mapping[str, object] | None = None
    alias: str | None = None

    def __post_init__(self) -> None:
        GenerationConfig.from_mapping(self.defaults or {})


Describe = Callable[[Path, Path | None], ModelFacts]
"""Reads the facts from a weights file, the first part of a split one, and checks that a tokenizer fits it.

The tokenizer is None where the file's own counts. Raises a ModelFileError.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What is said of a model beside its weights; the fields are those of its manifest.

    Architecture and context length are the file's own where they are None, the kind is that of a generator.
    What is None when a model is registered again is what was set for it before.
    """

    kind: ModelKind | None = None
    architecture: str | None = None
    context_length: int | None = None
    chat_template: str | None = None
    template_file: Path | None = None
    tokenizer: Path | None = None
    defaults: Mapping[str, object] | None = None
    source: ModelSource | None = None
    from_file: FileFacts | None = None

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
            from_file=FileFacts(own if given is None else None, most if length is None else None),
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
        """Return what of the registration is possible with a file that may have changed since."""
        own, most = facts.architecture, facts.context_length
        named, length = self.architecture, self.context_length
        return replace(
            self,
            architecture=named if own is None or named in {own, *facts.aliases} else None,
            context_length=None if length is not None and most is not None and length > most else length,
        )

    def without(self, facts: FileFacts) -> "Registration":
        """Return the registration without these facts of its file, which nobody set."""
        return replace(
            self,
            architecture=self.architecture if self.architecture != facts.architecture else None,
            context_length=self.context_length if self.context_length != facts.context_length else None,
        )


def _first(given: _T | None, earlier: _T | None) -> _T | None:
    return given if given is not None else earlier
