"""The reference backend: what every op means, in plain numpy."""

from rase_models.backends.reference.runner import ReferenceBackend, ReferenceRunner

__all__ = ["ReferenceBackend", "ReferenceRunner"]
