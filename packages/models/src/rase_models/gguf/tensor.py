"""A tensor of a GGUF file: where it is, and its bytes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase_models.gguf.types import GgmlType


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An entry of the tensor table.

    Attributes:
        shape: in numpy order, outermost dimension first: a linear weight is (out, in).
        offset: of the first byte, from the start of its part.
        nbytes: the length in the file.
        part: the index into `GgufFile.parts`.
    """

    name: str
    type: GgmlType
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    part: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A tensor with its bytes as they are in the file, uint8 [info.nbytes]."""

    info: TensorInfo
    data: NDArray[np.uint8]
