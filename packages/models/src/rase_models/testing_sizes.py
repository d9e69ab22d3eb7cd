"""The sizes of sketches of models, and the types of what they are made of."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Metadata = dict[str, object]
Tensors = dict[str, NDArray[np.float32]]
Shapes = Mapping[str, tuple[int, ...]]

VOCAB, CONTEXT, WIDTH, INNER = 48, 100, 64, 96
HEADS, KV_HEADS, LENGTH, WINDOW = 4, 2, 16, 8
EXPERTS, RANK, DEPTH = 4, 16, 32
GROUPS, STATE, TAPS, SPACE = 2, 16, 3, 128
QUERIES, KEYS = HEADS * LENGTH, KV_HEADS * LENGTH
