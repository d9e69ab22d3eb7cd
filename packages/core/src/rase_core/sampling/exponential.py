"""An exponential made of IEEE operations alone, so that every platform rounds it alike.

The C library's exp differs between platforms in the last bit, which is enough to choose another token.
"""

import numpy as np
from numpy.typing import NDArray

_LOG2_E = 1.4426950408889634
# ln 2 in two parts; the first ends in zeros, so that its product with a small integer is exact (Cody, Waite).
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# Taylor: on |r| <= ln 2 / 2 the first term left out is below 2^-54.
_COEFFICIENTS = tuple(1.0 / factorial for factorial in (
    6227020800, 479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1,
))  # fmt: skip
_LEAST = -745.0  # below it the result is zero in float64
_PIECE = 4096  # so many elements stay in a core's cache from step to step


def exponential(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return e to the power x <= 0, minus infinity too, of each element, to about one unit in the last bit.

    x: float64 [n].
    """
    result = np.empty_like(x)
    for start in range(0, x.size, _PIECE):
        result[start : start + _PIECE] = _exponential(x[start : start + _PIECE])
    return result


def _exponential(x: NDArray[np.float64]) -> NDArray[np.float64]:
    clamped = np.maximum(x, _LEAST)
    k = np.rint(clamped * _LOG2_E)
    r = clamped - k * _LN2_HIGH
    r -= k * _LN2_LOW
    result = np.full_like(r, _COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        result *= r
        result += coefficient
    result = np.ldexp(result, k.astype(np.int32))
    result[x < _LEAST] = 0.0
    return result
