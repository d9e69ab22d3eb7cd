"""Small models of every architecture, of random weights, for tests of architectures and backends."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rase_models import testing_layers, testing_metadata, testing_recurrent, testing_shapes
from rase_models.architectures import build_program
from rase_models.gguf import open_gguf
from rase_models.program import Program
from rase_models.testing_layers import LLAMA
from rase_models.testing_shapes import SHAPES
from rase_models.testing_sizes import (
    CONTEXT,
    DEPTH,
    EXPERTS,
    GROUPS,
    HEADS,
    INNER,
    KEYS,
    KV_HEADS,
    LENGTH,
    QUERIES,
    RANK,
    SPACE,
    STATE,
    TAPS,
    VOCAB,
    WIDTH,
    WINDOW,
    Metadata,
    Shapes,
    Tensors,
)

__all__ = [
    "CONTEXT",
    "DEPTH",
    "EXPERTS",
    "GROUPS",
    "HEADS",
    "INNER",
    "KEYS",
    "KV_HEADS",
    "LENGTH",
    "QUERIES",
    "RANK",
    "SPACE",
    "STATE",
    "TAPS",
    "TENSORS",
    "VOCAB",
    "WIDTH",
    "WINDOW",
    "Metadata",
    "Shapes",
    "Tensors",
    "build_sketch",
    "full_key",
    "sketch",
    "write_gguf",
]

TENSORS = {**testing_layers.TENSORS, **testing_recurrent.TENSORS}
ODD_LAYERS = {**testing_layers.ODD_LAYERS, **testing_recurrent.ODD_LAYERS}
METADATA = {**testing_metadata.METADATA, **testing_recurrent.METADATA}
BY_LAYER = {**testing_metadata.BY_LAYER, **testing_recurrent.BY_LAYER}
OTHER_SHAPES = {**testing_shapes.OTHER_SHAPES, **testing_recurrent.SHAPES}
ODD_SHAPES = {**testing_shapes.ODD_SHAPES, **testing_recurrent.ODD_SHAPES}
WHOLE = {**testing_shapes.WHOLE, **testing_recurrent.WHOLE}


def sketch(architecture: str, layers: int = 2, seed: int = 0) -> tuple[Metadata, Tensors]:
    """Return the metadata, without the prefix of its keys, and the tensors of a small model.

    Only what the architecture needs is there. The weights are large enough that all of the context counts.
    """
    metadata: Metadata = {
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "block_count": layers,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.layer_norm_epsilon": 1e-6,
    } | METADATA.get(architecture, {})
    for key, values in BY_LAYER.get(architecture, {}).items():
        metadata[key] = [values[layer % 2] for layer in range(layers)]
    rng = np.random.default_rng(seed)
    shapes = _shapes(architecture, layers)
    return metadata, {_full(name): _weight(rng, name, shape) for name, shape in shapes.items()}


_NEAR_ONE = ("norm", "norm_1", "norm_2", "rope_freqs", "layer_output_scale")


def _full(name: str) -> str:
    return name if name.endswith((".bias", ".scale", "ssm_a", "ssm_d")) else f"{name}.weight"


def _shapes(architecture: str, layers: int) -> dict[str, tuple[int, ...]]:
    whole = {"token_embd": (VOCAB, WIDTH), **WHOLE.get(architecture, {"output_norm": (WIDTH,)})}
    shapes = {name: tuple(max(n, -n * layers) for n in shape) for name, shape in whole.items()}
    known = {**SHAPES, **OTHER_SHAPES.get(architecture, {})}
    known_odd = {**known, **ODD_SHAPES.get(architecture, {})}
    even = TENSORS.get(architecture, LLAMA)
    odd = ODD_LAYERS.get(architecture, even)
    for layer in range(layers):
        names, of_layer = (odd, known_odd) if layer % 2 else (even, known)
        shapes |= {f"blk.{layer}.{name}": of_layer[name] for name in names}
    return shapes


def _weight(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    values = rng.normal(size=shape)
    if name.endswith("ssm_a"):  # the logarithm of what is left of a state
        return -np.abs(values * 0.3).astype(np.float32)
    if name.endswith(("time_mix_decay", "time_mix_w0")):  # of how fast states fade
        return (0.3 * values - 3).astype(np.float32)
    scaled = 1 + 0.1 * values if name.endswith(_NEAR_ONE) else values * 1.5 / np.sqrt(shape[-1])
    return scaled.astype(np.float32)


def build_sketch(
    path: Path,
    architecture: str,
    metadata: Mapping[str, object] | None = None,
    tensors: Mapping[str, NDArray[np.generic]] | None = None,
    *,
    without: Collection[str] = (),
    layers: int = 2,
    context_length: int | None = None,
) -> Program:
    """Build the Program of a sketch with other metadata and tensors, and without some, from a file at `path`.

    Raises what `build_program` does.
    """
    own_metadata, own_tensors = sketch(architecture, layers)
    keys = {key: value for key, value in (own_metadata | dict(metadata or {})).items() if key not in without}
    weights = {**own_tensors, **(tensors or {})}
    kept = {name: values for name, values in weights.items() if name not in without}
    return build_program(open_gguf(write_gguf(path, architecture, keys, kept)), context_length)


def full_key(architecture: str, key: str) -> str:
    """Return a key with the prefix of its architecture, if it is not one that has none."""
    return key if key.startswith("xielu.") else f"{architecture}.{key}"


_ADDERS: Mapping[type, str] = {
    bool: "add_bool",
    int: "add_uint64",
    float: "add_float32",
    str: "add_string",
    list: "add_array",
}


def write_gguf(
    path: Path, architecture: str, metadata: Mapping[str, object], tensors: Mapping[str, NDArray[np.generic]]
) -> Path:
    """Write a file of metadata, without the prefix of its keys, and tensors; return its path."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, architecture)
    for key, value in metadata.items():
        negative = type(value) is int and value < 0
        add: Callable[[str, object], None] = getattr(
            writer, "add_int32" if negative else _ADDERS[type(value)]
        )
        add(full_key(architecture, key), value)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
