"""What an op works on: the rows of a run, its weights, buffers, caches and states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import Rows
from rase_models.backends.reference.cache import LayerCache

Floats = NDArray[np.float32]


@dataclass(slots=True)
class Run:
    """A run of a Program: its rows, weights, caches, the buffers so far, and the states of stateful ops.

    Buffers are float32 [rows, width], states float32 [slots, size].
    """

    rows: Rows
    weights: Mapping[str, Floats]
    caches: tuple[LayerCache, ...]
    buffers: dict[str, Floats] = field(default_factory=dict)
    states: Sequence[Floats] = ()
