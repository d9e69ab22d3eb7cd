"""Prints the table of docs/metal.md that says how near each type of weights comes to exact arithmetic.

The argument is a folder of models with independent values beside them, as add-an-architecture.md describes:
NAME.gguf, and in NAME.npz `tokens`, `exact_logits` and `llamacpp_logits`. It takes a C++ compiler.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from rase_models.backends.metal import MetalBackend
from rase_models.backends.metal.device import Device
from rase_models.backends.metal.narrowing import Narrowing
from rase_models.gguf import open_gguf
from rase_models.kv_type import KvType
from rase_models.loading import load_on
from rase_models.testing_metal import emulated

Floats = NDArray[np.floating]


class RoundedOnly(Narrowing):
    """Rounds activations to half the bits and multiplies and sums in float32, as Metal does."""

    def product(self, x: mx.array, multiply: Callable[[mx.array], mx.array]) -> mx.array:
        """Return what `multiply`, which is linear, makes of x [..., columns], in float32."""
        peaks = mx.maximum(mx.abs(x).max(axis=-1, keepdims=True), 1e-30)
        return multiply((x / peaks).astype(self.dtype).astype(mx.float32)) * peaks


class SummingDevice(Device):
    """A device whose sums are float32."""

    def narrowing(self, dtype: mx.Dtype) -> Narrowing:
        """Return how activations are rounded for a matrix of some type."""
        return RoundedOnly(dtype)


DEVICES = (
    (Device(is_gpu=False, dtype=mx.float32, make_kernel=emulated), KvType.F32),
    (Device(is_gpu=False, dtype=mx.float32), KvType.F32),
    (Device(is_gpu=False, dtype=mx.float16, make_kernel=emulated), KvType.F16),
    (SummingDevice(is_gpu=False, dtype=mx.float16, make_kernel=emulated), KvType.F16),
)
HEAD = """| file | float32, kernels | float32, MLX's form | float16, kernels | float16, f32 sums | llama.cpp |
|---|---|---|---|---|---|"""


def log_softmax(logits: Floats) -> Floats:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def divergence(wanted: Floats, found: Floats) -> float:
    """Return the mean KL divergence of the next token's distribution."""
    exact, other = log_softmax(wanted), log_softmax(found)
    return float((np.exp(exact) * (exact - other)).sum(axis=-1).mean())


def rows(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.gguf")):
        with np.load(path.with_suffix(".npz")) as values:
            tokens, exact, other = (values[key] for key in ("tokens", "exact_logits", "llamacpp_logits"))
        results = [
            load_on(MetalBackend(device), open_gguf(path), kv_type=kv_type).logits(tokens.tolist())
            for device, kv_type in DEVICES
        ]
        figures = [f"{divergence(exact, np.asarray(found)):.0e}" for found in (*results, other)]
        yield f"| {' | '.join((path.stem.rpartition('-')[2], *figures))} |"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in (HEAD, *rows(Path(sys.argv[1]))))
