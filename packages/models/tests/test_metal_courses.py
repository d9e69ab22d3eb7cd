"""Sequences on Metal that are begun, continued together, forked and cut at random, against the reference."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.decoder import Batch
from rase_models import load_decoder
from rase_models.testing_sketches import VOCAB, sketch, write_gguf

pytest.importorskip("mlx.core", reason="MLX is not installed: pip install 'rase-models[metal]'")

from rase_models.backends.metal.device import has_gpu

TOLERANCE = 3e-2 if has_gpu() else 1e-4  # of the largest logit
Parts = list[tuple[int, int, NDArray[np.int64]]]


class Pair:
    """The same sequences on Metal and on the reference, which give them the same handles."""

    def __init__(self, path: Path) -> None:
        self.decoders = [load_decoder(path, device=name) for name in ("metal", "reference")]
        self.lengths: dict[int, int] = {}

    def begin(self) -> None:
        self._open({decoder.new_sequence() for decoder in self.decoders}, 0)

    def fork(self, sequence: int, wanted: int) -> None:
        length = self._resumable(sequence, wanted)
        self._open({decoder.fork(sequence, length) for decoder in self.decoders}, length)

    def cut(self, sequence: int, wanted: int) -> None:
        self.lengths[sequence] = self._resumable(sequence, wanted)
        for decoder in self.decoders:
            decoder.truncate(sequence, self.lengths[sequence])

    def error_of_step(self, parts: Parts) -> float:
        """Append tokens and return the largest difference of logits, in parts of the largest."""
        counts = [len(tokens) for *_, tokens in parts]
        positions = np.concatenate([np.arange(start, start + len(tokens)) for _, start, tokens in parts])
        tokens = np.concatenate([tokens for *_, tokens in parts])
        arrays = (np.repeat([part[0] for part in parts], counts), positions, tokens, np.cumsum(counts) - 1)
        batch = Batch(*(array.astype(np.int32) for array in arrays))
        found, wanted = (np.asarray(decoder.forward(batch)) for decoder in self.decoders)
        self.lengths |= {sequence: start + len(tokens) for sequence, start, tokens in parts}
        return float(np.abs(found - wanted).max() / np.abs(wanted).max())

    def _open(self, handles: set[int], length: int) -> None:
        (handle,) = handles
        self.lengths[handle] = length

    def _resumable(self, sequence: int, wanted: int) -> int:
        (length,) = {decoder.resume_length(sequence, wanted) for decoder in self.decoders}
        return length


@pytest.mark.parametrize("architecture", ["gemma2", "llama4", "qwen35"])
def test_a_random_course_of_sequences_has_the_logits_of_the_reference(
    architecture: str, tmp_path: Path
) -> None:
    metadata, tensors = sketch(architecture)
    path = write_gguf(tmp_path / "m.gguf", architecture, {**metadata, "context_length": 512}, tensors)
    pair, rng = Pair(path), np.random.default_rng(3)
    pair.begin()
    for turn in range(12):
        sequence = int(rng.choice(list(pair.lengths)))
        wanted = int(rng.integers(0, pair.lengths[sequence] + 1))
        if turn % 3 == 0:
            pair.begin()
        elif turn % 3 == 1:
            pair.fork(sequence, wanted)
        else:
            pair.cut(sequence, wanted)
        chosen = [handle for handle in pair.lengths if rng.random() < 0.8] or [sequence]
        counts = rng.choice([1, 1, 2, 70], len(chosen))
        parts = [
            (handle, pair.lengths[handle], rng.integers(0, VOCAB, count))
            for handle, count in zip(chosen, counts, strict=True)
            if pair.lengths[handle] + count < 500
        ]
        assert pair.error_of_step(parts) < TOLERANCE
