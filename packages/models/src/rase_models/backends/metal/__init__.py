"""The Metal backend: programs run by MLX, on the GPU of an Apple processor."""

from rase_models.backends.metal.backend import MetalBackend

__all__ = ["MetalBackend"]
