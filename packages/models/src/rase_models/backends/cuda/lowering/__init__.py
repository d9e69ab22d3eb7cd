"""From a Program's ops to launches of kernels."""

from rase_models.backends.cuda.lowering.run import Run
from rase_models.backends.cuda.lowering.table import lowered

__all__ = ["Run", "lowered"]
