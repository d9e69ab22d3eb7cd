"""Check the CUDA backend on a GPU and print one table: what is right, how fast, how much memory.

    python benchmarks/cuda_check.py [MODEL.gguf] [--device cuda:0]

Without a model it takes random weights, in which speed means little.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import EngineError
from rase_models import load_decoder
from rase_models.backends import load_backend
from rase_models.device_check import check_backend
from rase_models.testing import write_tiny_model
from rase_models.testing_sketches import TENSORS, sketch, write_gguf

_TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
_ERROR = 2e-5
_PROMPT, _ANSWER = 512, 128
Rows = Iterator[tuple[str, str, bool]]


def main() -> int:
    """Print the table; the status is 1 if anything is wrong."""
    options = _options()
    right = True
    for name, check in _checks(options.device, options.model):
        for what, found, is_right in _safely(name, check):
            print(f"{'ok  ' if is_right else 'FAIL'} {what:40s} {found}", flush=True)  # noqa: T201
            right = right and is_right
    return 0 if right else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def _checks(device: str, model: Path | None) -> Iterator[tuple[str, Callable[[], Rows]]]:
    yield "device", partial(_device, device)
    for architecture in sorted({"llama", *TENSORS}):
        yield architecture, partial(_architecture, device, architecture)
    yield "text", partial(_text, device, model)
    yield "speed", partial(_speed, device, model)
    yield "memory", partial(_memory, device, model)


def _safely(name: str, check: Callable[[], Rows]) -> Rows:
    try:
        yield from check()
    except EngineError as error:
        yield name, f"{type(error).__name__}: {error}", False


def _device(device: str) -> Rows:
    yield "device", check_backend(load_backend(device)), True


def _architecture(device: str, name: str) -> Rows:
    """Compare with the reference: a prompt by cuBLAS, and token by token by graphs."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_gguf(Path(folder) / "model.gguf", name, *sketch(name))
        wanted = np.asarray(load_decoder(path, device="reference").logits(_TOKENS))
        decoder = load_decoder(path, device=device)
        prompt = _error(np.asarray(decoder.logits(_TOKENS)), wanted)
        steps = [decoder.prefill(_TOKENS[:1]), *(decoder.decode(token) for token in _TOKENS[1:])]
        decode = _error(np.stack([np.asarray(step) for step in steps]), wanted)
        decoder.close()
    yield name, f"error {prompt:.1e} of prompts, {decode:.1e} of steps", max(prompt, decode) < _ERROR


def _error(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> float:
    difference = np.square(found.astype(np.float64) - wanted).sum()
    return float(difference / np.square(wanted.astype(np.float64)).sum())


def _text(device: str, model: Path | None) -> Rows:
    """Compare the likeliest tokens with the CPU's, each step after the CPU's own token."""
    with _model(model) as path:
        cpu, gpu = (load_decoder(path, device=name) for name in ("cpu", device))
        expected, found = cpu.prefill(_TOKENS), gpu.prefill(_TOKENS)
        same = 0
        for _ in range(32):
            token = int(np.argmax(expected))
            same += token == int(np.argmax(found))
            expected, found = cpu.decode(token), gpu.decode(token)
        cpu.close()
        gpu.close()
    yield "likeliest tokens as on the CPU", f"{same} of 32", same >= 28


def _speed(device: str, model: Path | None) -> Rows:
    with _model(model) as path:
        decoder = load_decoder(path, device=device)
        prompt = [index % 40 for index in range(min(_PROMPT, decoder.context_length // 2))]
        count = min(_ANSWER, decoder.context_length // 4)
        for kind in ("first, with compiling", "second"):
            started = time.perf_counter()
            decoder.prefill(prompt)
            read = time.perf_counter()
            for _ in range(count):
                decoder.decode(7)
            done = time.perf_counter()
            rates = f"{len(prompt) / (read - started):,.0f} prompt, {count / (done - read):,.1f} decode"
            yield f"tokens a second, {kind}", rates, True
        decoder.close()


def _memory(device: str, model: Path | None) -> Rows:
    """See that a model gives back what it takes."""
    free = load_backend(device).describe()
    with _model(model) as path:
        for _ in range(3):
            decoder = load_decoder(path, device=device)
            decoder.prefill(_TOKENS)
            decoder.close()
    after = load_backend(device).describe()
    yield "memory after three loads", after, free.split(" GB")[0] == after.split(" GB")[0]


@contextmanager
def _model(model: Path | None) -> Iterator[Path]:
    """Give the path of the model that was asked for, or of one of random weights."""
    with tempfile.TemporaryDirectory() as folder:
        yield model or write_tiny_model(Path(folder) / "tiny.gguf")


if __name__ == "__main__":
    sys.exit(main())
