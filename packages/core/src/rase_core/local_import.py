"""A file that is being registered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from rase_core.earlier import Earlier
from rase_core.hashing import hash_file
from rase_core.local_weights import LocalWeights
from rase_core.manifest import ModelKind, ModelManifest, WeightsFile
from rase_core.model_file import regular_file
from rase_core.registration import Describe, IfNew, ModelFacts, Registration
from rase_core.weights_identity import WeightsIdentity


@dataclass(frozen=True, slots=True)
class LocalImport:
    """What is said of weights on the disk, and what they say themselves when they fit a tokenizer."""

    weights: LocalWeights
    registration: Registration
    if_new: IfNew
    describe: Callable[[Path | None], ModelFacts]

    @classmethod
    def of(
        cls, weights: LocalWeights, registration: Registration, if_new: IfNew, describe: Describe | None
    ) -> "LocalImport":
        """Prepare an import that describes the weights once for each tokenizer."""
        about = partial(describe or _undescribed, weights.files[0])
        return cls(weights, registration, if_new, cache(about))

    def identity(self) -> WeightsIdentity:
        """Return what is known of the weights before they are hashed."""
        return self.weights.identity(self.registration.source)

    def completed(self, earlier: Earlier | None, identity: WeightsIdentity) -> Registration:
        """Return what the weights are registered as in an earlier one's place, None for none.

        Raises what Registration.completed and the description raise.
        """
        given = self.registration
        if earlier is None:
            earlier = Earlier(Registration(), WeightsIdentity())
            given = replace(given, defaults=given.defaults or self.if_new.defaults)
        facts = self.describe(given.over(earlier.registration).tokenizer)
        return given.over(earlier.kept(identity, facts)).completed(self.weights.files[0], facts)

    def manifest(
        self, model_id: str, earlier: Earlier | None, weights: tuple[WeightsFile, ...]
    ) -> ModelManifest:
        """Return the manifest of the weights, now that they are hashed; raises what `completed` does."""
        full = self.completed(earlier, WeightsIdentity.of(weights, self.registration.source))
        tokenizer, tokenizer_sha256 = hashed_tokenizer(full.tokenizer, self.weights.sha256)
        template = full.template_file
        return ModelManifest(
            id=model_id,
            kind=full.kind or ModelKind.GENERATOR,
            format=self.weights.format,
            weights=weights,
            tokenizer=tokenizer,
            tokenizer_sha256=tokenizer_sha256,
            architecture=full.architecture,
            context_length=full.context_length,
            chat_template=full.chat_template,
            template_file=None if template is None else regular_file(template),
            defaults=full.defaults or {},
            source=full.source,
            from_file=full.from_file,
        )


def hashed_tokenizer(path: Path | None, known: Mapping[Path, str]) -> tuple[Path | None, str | None]:
    """Return a tokenizer's absolute path and its sha256, None for none. Raises ModelFileNotFound."""
    if path is None:
        return None, None
    absolute = regular_file(path)
    return absolute, known[absolute] if absolute in known else hash_file(absolute)[0]


def _undescribed(path: Path, tokenizer: Path | None) -> ModelFacts:
    return ModelFacts()
