"""What tells whether two registrations mean the same model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rase_core.manifest import ModelSource, WeightsFile


@dataclass(frozen=True, slots=True)
class WeightsIdentity:
    """What is known of a model's weights: of each file path, size and sha256, None for what is not known."""

    paths: tuple[str, ...] = ()
    sizes: tuple[int | None, ...] = ()
    sha256: tuple[str | None, ...] = ()
    source: ModelSource | None = None

    @classmethod
    def of(cls, files: Iterable[WeightsFile], source: ModelSource | None = None) -> "WeightsIdentity":
        """Return the identity of files that are hashed."""
        known = tuple(files)
        return cls(
            tuple(str(file.path) for file in known),
            tuple(file.size for file in known),
            tuple(file.sha256 for file in known),
            source,
        )

    def may_be(self, earlier: "WeightsIdentity") -> bool:
        """Tell whether this can be the model that was registered earlier, or newer weights in its place.

        It is when it has the same path, the same content, or the same name in the same repository; of
        weights that nothing is known of, anything may be.
        """
        return (
            not earlier.paths
            or (bool(self.paths) and self.paths[0] == earlier.paths[0])
            or self.has_content_of(earlier)
            or (self.source is not None and _place(self.source) == _place(earlier.source))
        )

    def has_content_of(self, other: "WeightsIdentity") -> bool:
        """Tell whether nothing that is known of the contents of both is different."""
        return _agree(self.sizes, other.sizes) and _agree(self.sha256, other.sha256)


def _place(source: ModelSource | None) -> tuple[str, str] | None:
    return None if source is None else (source.repo, source.file)


def _agree(some: Sequence[object], others: Sequence[object]) -> bool:
    if len(some) != len(others):
        return False
    return all(None in pair or pair[0] == pair[1] for pair in zip(some, others, strict=True))
