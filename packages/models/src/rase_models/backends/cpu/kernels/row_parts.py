"""Equal parts of rows, which kernels work on apart."""

from rase_models.backends.cpu.abi import HEADS
from rase_models.backends.cpu.kernels.rows import row_count
from rase_models.backends.cpu.simd import add, compiled, f32, fma, load_f32x16, load_i64, splat, sum_lanes


@compiled
def part_count(op: int, context: int) -> int:
    """Return how many parts of rows there are."""
    return int(row_count(op, context) * load_i64(op + HEADS))


@compiled
def sum_of_squares(x: int, width: int) -> float:
    """Return sum(x²) of `width` float32, a multiple of 16."""
    even, odd = splat(f32(0.0)), splat(f32(0.0))
    vectors = width >> 4
    for pair in range(vectors >> 1):
        v, w = load_f32x16(x + 128 * pair), load_f32x16(x + 128 * pair + 64)
        even, odd = fma(v, v, even), fma(w, w, odd)
    if vectors & 1:
        v = load_f32x16(x + 64 * (vectors - 1))
        even = fma(v, v, even)
    return sum_lanes(add(even, odd))  # type: ignore[no-any-return]
