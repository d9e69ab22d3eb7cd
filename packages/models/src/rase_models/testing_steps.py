"""Steps of a decoder with several sequences, for tests."""

import numpy as np
from numpy.typing import NDArray
from rase_core.decoder import Batch

from rase_models.decoder import ProgramDecoder


def step(decoder: ProgramDecoder, *parts: tuple[int, int, list[int]]) -> NDArray[np.float32]:
    """Append (sequence, position, tokens) in one step and return the logits after the last token of each."""
    counts = [len(tokens) for _, _, tokens in parts]
    sequences = np.repeat([sequence for sequence, _, _ in parts], counts)
    positions = np.concatenate([np.arange(start, start + len(tokens)) for _, start, tokens in parts])
    tokens = np.concatenate([tokens for _, _, tokens in parts])
    arrays = (sequences, positions, tokens, np.cumsum(counts) - 1)
    return np.asarray(decoder.forward(Batch(*(array.astype(np.int32) for array in arrays))))
