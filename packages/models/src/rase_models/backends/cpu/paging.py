"""Values of code points, kept once for all pages that have the same."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.cpu.byte_abi import PAGE_BITS

Value = TypeVar("Value", bound=np.generic)


def paged(values: NDArray[Value]) -> tuple[NDArray[np.int32], NDArray[Value]]:
    """Return where each page of code points begins, int32 [0x110000 >> PAGE_BITS], and the values there."""
    blocks, size = dict[bytes, int](), 1 << PAGE_BITS
    pages = [size * blocks.setdefault(page.tobytes(), len(blocks)) for page in values.reshape(-1, size)]
    return np.array(pages, np.int32), np.frombuffer(b"".join(blocks), values.dtype)
