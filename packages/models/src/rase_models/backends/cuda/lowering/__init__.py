"""From a Program's ops to launches of kernels."""

from rase_models.backends.cuda.lowering.run import Constant, Run, constants_of
from rase_models.backends.cuda.lowering.table import lowered

__all__ = ["Constant", "Run", "constants_of", "lowered"]
