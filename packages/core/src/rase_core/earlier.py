"""What a model was registered as before."""

from dataclasses import dataclass, replace

from rase_core.manifest import FileFacts
from rase_core.registration import ModelFacts, Registration
from rase_core.weights_identity import WeightsIdentity


@dataclass(frozen=True, slots=True)
class Earlier:
    """A registration that is there already, and the weights that it is of."""

    registration: Registration
    weights: WeightsIdentity

    def kept(self, weights: WeightsIdentity, facts: ModelFacts) -> Registration:
        """Return what was set and holds for newer weights with these facts.

        Where it was not recorded what the earlier file said, weights of the same content say the same, and of
        others the context is their own.
        """
        is_same, was = weights.has_content_of(self.weights), self.registration
        length = facts.context_length if is_same else was.context_length
        said = was.from_file or FileFacts(facts.architecture, length)
        source = was.source if is_same else None
        return replace(was.without(said).within(facts), source=source)
