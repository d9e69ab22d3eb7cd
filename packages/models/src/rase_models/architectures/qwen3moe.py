"""qwen3moe: the mixtures of Qwen 3, with norms of queries and keys."""

from rase_models.architectures.qwen3 import build

__all__ = ["build"]
