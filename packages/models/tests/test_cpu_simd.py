"""Vectors, conversions, reductions and atomics of compiled kernels, against numpy."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from rase_models.backends.cpu import simd
from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import Value

Floats = NDArray[np.float32]


def over_vectors(function: Callable[..., object]) -> Callable[[int, int, int], None]:
    """Compile a loop that applies a function of f32x16 to float32 arrays by address."""

    @simd.compiled_for_python
    def run(source: int, target: int, count: int) -> None:
        for index in range(count):
            simd.store_f32x16(target + 64 * index, function(simd.load_f32x16(source + 64 * index)))

    return run


def applied(run: Callable[[int, int, int], None], x: Floats) -> Floats:
    y = np.empty_like(x)
    run(x.ctypes.data, y.ctypes.data, x.size // 16)
    return y


def test_exp_is_within_two_last_places_of_the_real_one() -> None:
    x = np.linspace(-87, 88.7, 160_000, dtype=np.float32)
    real = np.exp(x.astype(np.float64))
    assert (np.abs(applied(over_vectors(simd.exp), x) / real - 1) < 1.2e-7).all()


def test_exp_ends_in_zero_and_infinity_and_keeps_not_a_number() -> None:
    x = np.array([-np.inf, -200, -110, -0.0, 0, 89.5, 200, np.inf] * 2, np.float32)
    expected = [0, 0, 0, 1, 1, np.inf, np.inf, np.inf] * 2
    np.testing.assert_array_equal(applied(over_vectors(simd.exp), x), expected)
    assert np.isnan(applied(over_vectors(simd.exp), np.full(16, np.nan, np.float32))).all()


def test_exp_of_a_number_has_the_bits_of_a_lane() -> None:
    @simd.compiled_for_python
    def one_by_one(source: int, target: int, count: int) -> None:
        for index in range(16 * count):
            simd.store_f32(target + 4 * index, simd.exp_f32(simd.load_f32(source + 4 * index)))

    x = np.random.default_rng(1).normal(0, 30, 16_000).astype(np.float32)
    np.testing.assert_array_equal(applied(one_by_one, x), applied(over_vectors(simd.exp), x))


def test_sigmoid_and_tanh_are_accurate() -> None:
    x = np.linspace(-30, 30, 16_000, dtype=np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(applied(over_vectors(simd.sigmoid), x), 1 / (1 + np.exp(-wide)), rtol=3e-7)
    np.testing.assert_allclose(applied(over_vectors(simd.tanh), x), np.tanh(wide), atol=2e-7)


def test_float16_conversions_are_those_of_numpy() -> None:
    @simd.compiled_for_python
    def widen(source: int, target: int, count: int) -> None:
        for index in range(count):
            simd.store_f32x16(target + 64 * index, simd.load_f16x16(source + 32 * index))

    @simd.compiled_for_python
    def narrow(source: int, target: int, count: int) -> None:
        for index in range(count):
            simd.store_f16x16(target + 32 * index, simd.load_f32x16(source + 64 * index))

    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    floats = np.empty(65536, np.float32)
    widen(halves.ctypes.data, floats.ctypes.data, 4096)
    np.testing.assert_array_equal(floats, halves.astype(np.float32))
    patterns = (np.arange(1 << 20, dtype=np.uint64) * 4099 % (1 << 32)).astype(np.uint32).view(np.float32)
    found = np.empty(patterns.size, np.float16)
    narrow(patterns.ctypes.data, found.ctypes.data, patterns.size // 16)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(found, patterns.astype(np.float16))


@simd.compiled_for_python
def _multiply_add(source: int, target: int, count: int) -> None:
    for index in range(count):
        base = source + 192 * index
        x, y, z = simd.load_f32x16(base), simd.load_f32x16(base + 64), simd.load_f32x16(base + 128)
        simd.store_f32x16(target + 64 * index, simd.fma(x, y, z))


def test_fma_rounds_once() -> None:
    rng = np.random.default_rng(2)
    operands = rng.standard_normal((1000, 3, 16)).astype(np.float32)
    close = np.float32(-1) * operands[:, 0] * operands[:, 1]
    operands[::2, 2] = close[::2]  # the rounding error of the product is what remains
    y = np.empty((1000, 16), np.float32)
    _multiply_add(operands.ctypes.data, y.ctypes.data, 1000)
    wide = operands.astype(np.longdouble)
    exact = (wide[:, 0] * wide[:, 1] + wide[:, 2]).astype(np.float32)
    np.testing.assert_array_equal(y, exact)


def test_fma_is_the_same_where_it_is_emulated() -> None:
    from dataclasses import replace

    from rase_models.backends.cpu.instruction_set import instruction_set

    @simd.operation(simd.f32x16, simd.f32x16, simd.f32x16, simd.f32x16)
    def emulated(code: Code, x: Value, y: Value, z: Value) -> Value:
        without = replace(instruction_set(), has_fma=False)
        return Code(code.builder, without).fma(x, y, z)

    @simd.compiled_for_python
    def run(source: int, target: int, count: int) -> None:
        for index in range(count):
            base = source + 192 * index
            x, y, z = simd.load_f32x16(base), simd.load_f32x16(base + 64), simd.load_f32x16(base + 128)
            simd.store_f32x16(target + 64 * index, emulated(x, y, z))

    rng = np.random.default_rng(3)
    exponents = np.exp2(rng.integers(-60, 30, (20_000, 3, 16)))
    operands = (rng.standard_normal((20_000, 3, 16)) * exponents).astype(np.float32)
    product = operands[:, 0] * operands[:, 1]
    operands[::2, 2] = -product[::2] * (1 + rng.integers(-2, 3, product[::2].shape) * np.float32(2**-23))
    found, expected = np.empty((2, 20_000, 16), np.float32)
    run(operands.ctypes.data, found.ctypes.data, 20_000)
    _multiply_add(operands.ctypes.data, expected.ctypes.data, 20_000)
    np.testing.assert_array_equal(found, expected)


@simd.compiled_for_python
def _reductions(source: int) -> tuple[float, float]:
    vector = simd.load_f32x16(source)
    return simd.sum_lanes(vector), simd.max_lanes(vector)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=16, max_size=16))
def test_lanes_are_added_in_halves(lanes: list[float]) -> None:
    x = np.array(lanes, np.float32)
    total = x.copy()
    while total.size > 1:
        total = total[: total.size // 2] + total[total.size // 2 :]
    assert _reductions(x.ctypes.data) == (total[0], x.max())


def test_rounding_is_half_to_even() -> None:
    @simd.compiled_for_python
    def run(source: int, target: int) -> None:
        simd.store_i32x16(target, simd.round_to_int(simd.load_f32x16(source)))

    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, -126.5] * 2, np.float32)
    y = np.empty(16, np.int32)
    run(x.ctypes.data, y.ctypes.data)
    np.testing.assert_array_equal(y, np.rint(x))


@pytest.mark.parametrize("count", [-5, 0, 1, 7, 16, 1000])
def test_lanes_from_a_count_on_are_replaced(count: int) -> None:
    @simd.compiled_for_python
    def run(source: int, target: int, count: int) -> None:
        simd.store_f32x16(target, simd.keep_first(simd.load_f32x16(source), count, -9.0))

    x = np.arange(16, dtype=np.float32)
    y = np.empty(16, np.float32)
    run(x.ctypes.data, y.ctypes.data, count)
    np.testing.assert_array_equal(y, np.where(np.arange(16) < count, x, -9))


def test_lanes_are_rearranged_as_named() -> None:
    @simd.compiled_for_python
    def run(source: int, target: int) -> None:
        a, b = simd.load_f32x16(source), simd.load_f32x16(source + 64)
        simd.store_f32x16(target, simd.even_lanes(a, b))
        simd.store_f32x16(target + 64, simd.odd_lanes(a, b))
        simd.store_f32x16(target + 128, simd.interleave_low(a, b))
        simd.store_f32x16(target + 192, simd.interleave_high(a, b))

    x = np.arange(32, dtype=np.float32)
    y = np.empty((4, 16), np.float32)
    run(x.ctypes.data, y.ctypes.data)
    pairs = np.stack([x[:16], x[16:]], axis=1).reshape(2, 16)
    np.testing.assert_array_equal(y, [x[::2], x[1::2], *pairs])


def test_atomics_change_memory_and_say_what_was_there() -> None:
    @simd.compiled_for_python
    def run(address: int) -> tuple[int, int, int, int]:
        before = simd.atomic_add(address, 3)
        missed = simd.compare_exchange(address, 99, 1)
        hit = simd.compare_exchange(address, 8, 21)
        simd.pause()
        now = simd.atomic_load(address)
        simd.atomic_store(address, simd.opaque(now + 1))
        return before, missed, hit, now

    memory = np.array([5], np.int64)
    assert run(memory.ctypes.data) == (5, 8, 8, 21)
    assert memory[0] == 22


def test_the_cycle_counter_does_not_go_back() -> None:
    @simd.compiled_for_python
    def run() -> int:
        start = simd.cycle_counter()
        took: int = simd.cycle_counter() - start
        return took

    assert run() >= 0


def test_a_kernel_is_called_by_its_address() -> None:
    from numba import cfunc, types

    @cfunc(types.void(types.int64, types.int64, types.int64, types.int64), error_model="numpy")
    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        simd.store_i64(op, thread + 10 * threads + context)

    @simd.compiled_for_python
    def run(address: int, op: int) -> None:
        simd.call_kernel(address, 1, 2, op, 300)

    memory = np.zeros(1, np.int64)
    assert kernel.address is not None
    run(kernel.address, memory.ctypes.data)
    assert memory[0] == 321
