"""Random numbers that depend on nothing but their name.

The numbers of a token are Philox4x64-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3", 2011) with the key (seed, choice) and the counter (position, 0, 0, 0). So the n-th token of a
sequence gets the same numbers whatever was drawn before it, on every machine.
"""

_MASK = (1 << 64) - 1
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Return the four 64-bit words of Philox4x64-10 for a key and a counter of 64-bit words."""
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(_ROUNDS):
        high0, low0 = divmod(_MULTIPLIERS[0] * c0, 1 << 64)
        high1, low1 = divmod(_MULTIPLIERS[1] * c2, 1 << 64)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def uniforms(seed: int, choice: int, position: int) -> tuple[float, float, float, float]:
    """Return four independent numbers in [0, 1), multiples of 2^-53: the top 53 bits of each word."""
    w0, w1, w2, w3 = philox((seed, choice), (position, 0, 0, 0))
    return _unit(w0), _unit(w1), _unit(w2), _unit(w3)


def _unit(word: int) -> float:
    return (word >> 11) * 2.0**-53
