"""Reading GGUF files: header, metadata, tensor table, weights."""

from rase_models.gguf.file import GgufFile, OnBytes, open_gguf
from rase_models.gguf.metadata import MetadataValue
from rase_models.gguf.tensor import TensorInfo, Weight
from rase_models.gguf.types import TYPE_LAYOUTS, GgmlType

__all__ = [
    "TYPE_LAYOUTS",
    "GgmlType",
    "GgufFile",
    "MetadataValue",
    "OnBytes",
    "TensorInfo",
    "Weight",
    "open_gguf",
]
