"""What can be wrong with the files of a model, and on their way."""

from collections.abc import Iterable
from pathlib import Path

from rase_core.errors.engine_error import EngineError


class ModelFileError(EngineError):
    """A file of a model cannot be used."""


class ModelFileNotFound(ModelFileError):
    """A model's file does not exist or is not a regular, readable file."""

    def __init__(self, path: Path, reason: str = "no such file") -> None:
        super().__init__(
            f"{path}: {reason}", "check the path; a model's files are used in place and must stay there"
        )
        self.path, self.reason = path, reason


class UnsupportedFormat(ModelFileError):
    """A file is not in a format that rase reads."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(f"{path}: unsupported format: {found}", "rase reads GGUF version 2 and 3")
        self.path, self.found = path, found


class InvalidGguf(ModelFileError):
    """A GGUF file breaks the format or its architecture's needs: where and how."""

    def __init__(self, path: Path, what: str, *, offset: int | None = None) -> None:
        place = f"{path}" + (f", offset {offset}" if offset is not None else "")
        super().__init__(f"{place}: {what}", "download the file again, or convert the model again")
        self.path, self.what, self.offset = path, what, offset


class UnsupportedTensorType(ModelFileError):
    """A tensor has a type that rase cannot compute with."""

    def __init__(self, type_name: str, supported: Iterable[str], tensor: str | None = None) -> None:
        self.type_name, self.supported, self.tensor = type_name, tuple(supported), tensor
        place = f"tensor {tensor}: " if tensor is not None else ""
        super().__init__(f"{place}unsupported type {type_name}", f"supported: {', '.join(self.supported)}")


class UnsupportedArchitecture(ModelFileError):
    """No program is known for a file's `general.architecture`; of some it is known why."""

    def __init__(
        self,
        architecture: str,
        supported: Iterable[str],
        path: Path | None = None,
        reason: str | None = None,
    ) -> None:
        self.architecture, self.supported, self.path = architecture, tuple(supported), path
        self.reason = reason
        place = f"{path}: " if path is not None else ""
        advice = f"supported: {', '.join(self.supported)}"
        super().__init__(
            f"{place}unsupported architecture {architecture!r}",
            f"{reason}; {advice}" if reason is not None else advice,
        )


class ArchitectureMismatch(ModelFileError):
    """The architecture that was asked for contradicts the file."""

    def __init__(self, path: Path, given: str, found: str) -> None:
        super().__init__(
            f"{path}: is {found!r}, not {given!r}", f"leave the architecture out, or give {found!r}"
        )
        self.path, self.given, self.found = path, given, found


class TokenizerError(ModelFileError):
    """A tokenizer is missing, broken or not known."""


class TemplateError(ModelFileError):
    """A chat template is missing or broken."""


class HubError(EngineError):
    """A download from Hugging Face failed."""
