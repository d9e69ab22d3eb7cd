"""Activation records: int8 values, scales and sums, against numpy."""

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_models.backends.cpu.activations import (
    SCALE,
    SCALED_SUM,
    START_32_HIGH,
    START_32_LOW,
    START_128,
    panel_nbytes,
    record_nbytes,
)
from rase_models.backends.cpu.simd import compiled_for_python, load_f32x16, quantise32

Floats = NDArray[np.float32]


@compiled_for_python
def quantise(x: int, record: int, row: int, panel: int) -> None:
    quantise32(load_f32x16(x), load_f32x16(x + 64), record, row, panel)


def record_of(x: Floats, panel: int) -> NDArray[np.uint8]:
    record = np.zeros(record_nbytes(panel), np.uint8)
    for row, values in enumerate(x):
        quantise(values.ctypes.data, record.ctypes.data, row, panel)
    return record


def part(record: NDArray[np.uint8], panel: int, offset: int, dtype: type) -> NDArray[np.generic]:
    return record[panel * offset : panel * (offset + 4)].view(dtype)


@pytest.mark.parametrize("panel", [1, 8])
def test_a_record_holds_values_scales_and_sums(panel: int) -> None:
    x = np.random.default_rng(panel).standard_normal((panel, 32)).astype(np.float32)
    record = record_of(x, panel)
    values = record[: 32 * panel].view(np.int8).reshape(panel, 32).astype(np.int32)
    scale = np.abs(x).max(axis=1) * np.float32(1 / 127)
    np.testing.assert_array_equal(part(record, panel, SCALE, np.float32), scale)
    assert (np.abs(values * scale[:, None] - x) <= scale[:, None] * 0.5001).all()
    assert (np.abs(values).max(axis=1) == 127).all()
    sums = values.sum(axis=1).astype(np.float32)
    np.testing.assert_array_equal(part(record, panel, SCALED_SUM, np.float32), scale * sums)
    np.testing.assert_array_equal(part(record, panel, START_128, np.int32), -128 * values.sum(axis=1))
    np.testing.assert_array_equal(
        part(record, panel, START_32_LOW, np.int32), -32 * values[:, :16].sum(axis=1)
    )
    np.testing.assert_array_equal(
        part(record, panel, START_32_HIGH, np.int32), -32 * values[:, 16:].sum(axis=1)
    )


def test_zeros_and_tiny_values_are_zeros() -> None:
    for magnitude in (0.0, 1e-45, 1e-31):
        record = record_of(np.full((1, 32), magnitude, np.float32), 1)
        assert (record[:32] == 0).all()
        assert np.isfinite(part(record, 1, SCALE, np.float32)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 15, 31])
def test_what_is_not_finite_is_not_lost(value: float, place: int) -> None:
    x = np.ones((1, 32), np.float32)
    x[0, place] = value
    assert not np.isfinite(part(record_of(x, 1), 1, SCALE, np.float32)).any()


def test_sizes_of_records() -> None:
    assert record_nbytes(1) == 52
    assert record_nbytes(8) == 416
    assert panel_nbytes(8, 96) == 3 * 416
