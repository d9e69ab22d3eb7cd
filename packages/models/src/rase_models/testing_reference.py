"""One op on the reference backend, for tests of what ops mean."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import BLOCK_TOKENS, Rows
from rase_models.backends.reference.cache import LayerCache
from rase_models.backends.reference.ops import execute
from rase_models.backends.reference.run import Run
from rase_models.program import Op

Floats = NDArray[np.float32]


def rows_at(positions: Sequence[int], outputs: Sequence[int] = (0,)) -> Rows:
    """Return rows of one sequence in blocks 0, 1, ..., the row's index being its token."""
    blocks = np.arange(max(positions) // BLOCK_TOKENS + 1, dtype=np.int32)
    count = len(positions)
    return Rows(
        np.zeros(count, np.int32),
        np.array(positions, np.int32),
        np.arange(count, dtype=np.int32),
        np.array(outputs, np.int32),
        blocks[None, None],
    )


def run_op(
    op: Op,
    buffers: Mapping[str, Floats],
    weights: Mapping[str, Floats] | None = None,
    rows: Rows | None = None,
    caches: tuple[LayerCache, ...] = (),
) -> dict[str, Floats]:
    """Execute one op and return the buffers; those that it was given must not change in place."""
    count = len(next(iter(buffers.values()))) if buffers else 1
    before = {name: values.copy() for name, values in buffers.items()}
    run = Run(rows or rows_at(range(count)), weights or {}, caches, dict(buffers))
    execute(op, run)
    for name, values in before.items():
        np.testing.assert_array_equal(buffers[name], values)
    return run.buffers


def assert_close(got: Floats, want: object) -> None:
    """Assert that float32 values are those that double precision gives."""
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, np.asarray(want), rtol=2e-5, atol=2e-5)
