"""What the store knows about one model, and its form as a TOML file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from rase_core.sampling import GenerationConfig


class ModelKind(StrEnum):
    """What a model computes."""

    GENERATOR = "generator"
    EMBEDDING = "embedding"


class ModelFormat(StrEnum):
    """The format of a model's weights."""

    GGUF = "gguf"
    SAFETENSORS = "safetensors"


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """One file of a model's weights: absolute path, lower-case hex sha256, size in bytes."""

    path: Path
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a pulled model came from; the revision is a commit hash."""

    repo: str
    file: str
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What of a manifest was taken from the weights, as it was then; None for what was given."""

    architecture: str | None = None
    context_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelManifest:
    """A registered model.

    `weights` has one file, or all parts of a split model in order. `chat_template` is a template's text or
    the name of a built-in one, `template_file` a file that holds one. `defaults` are GenerationConfig fields
    by name, `aliases` other names that the model is asked for by. `from_file` tells facts of the weights from
    what was set; older manifests have None. `warnings` say which keys of its file are unknown.
    """

    id: str
    weights: tuple[WeightsFile, ...]
    kind: ModelKind = ModelKind.GENERATOR
    format: ModelFormat = ModelFormat.GGUF
    tokenizer: Path | None = None
    tokenizer_sha256: str | None = None
    architecture: str | None = None
    context_length: int | None = None
    chat_template: str | None = None
    template_file: Path | None = None
    defaults: Mapping[str, object] = field(default_factory=dict)
    source: ModelSource | None = None
    from_file: FileFacts | None = None
    aliases: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def weights_path(self) -> Path:
        """The weights, the first part of a split model."""
        return self.weights[0].path

    @property
    def size(self) -> int:
        """The size of all weights in bytes."""
        return sum(file.size for file in self.weights)

    def default_config(self) -> GenerationConfig:
        """Return the sampling settings of this model: its `defaults` over the general ones."""
        return GenerationConfig.from_mapping(self.defaults)
