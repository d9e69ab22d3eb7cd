"""Packed weights: every type against gguf's own dequantisation, and tiles against float64."""

import functools
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray
from rase_core.errors import BackendFailure
from rase_models.backends.cpu.activations import PANEL_ROWS, panel_nbytes
from rase_models.backends.cpu.instruction_set import target_features
from rase_models.backends.cpu.packing import (
    PACKED_FORMATS,
    TILE_ROWS,
    WeightFormat,
    packed_format,
    repack,
    row,
    tile,
)
from rase_models.backends.cpu.restating import restated
from rase_models.backends.cpu.simd import compiled_for_python, load_f32x16, quantise32
from rase_models.gguf import GgmlType
from rase_models.testing_blocks import random_blocks

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

FORMS = {form.name: form for forms in PACKED_FORMATS.values() for form in forms}
COLUMNS = {1: 77, 32: 96, 64: 192, 256: 512}
ALIKE = {"iq1_s", "iq1_m", "iq2_xs", "iq3_xxs", "mxfp4x1"}  # their kernels differ from another's in constants
ROWS = 40  # two groups and a half


def dequantized(form: WeightFormat, data: Bytes) -> Floats:
    return dequantize(data, GGMLQuantizationType(form.type.value)).astype(np.float32)


def aligned(nbytes: int) -> Bytes:
    buffer = np.zeros(nbytes + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + nbytes]


@functools.cache
def compiled(function: Callable[..., None]) -> Callable[..., None]:
    """Compile a caller of an operation, so that Python can call it."""

    @compiled_for_python
    def caller(*arguments: int) -> None:
        function(*arguments)

    return caller


@compiled_for_python
def quantise_rows(x: int, records: int, rows: int, columns: int, panel: int, panel_size: int) -> None:
    for index in range(rows):
        for span in range(columns // 32):
            source = x + 4 * (index * columns + 32 * span)
            target = records + (index // panel) * panel_size + span * 52 * panel
            quantise32(load_f32x16(source), load_f32x16(source + 64), target, index % panel, panel)


def pack(form: WeightFormat, data: Bytes, columns: int, threads: int = 2) -> Bytes:
    data = restated(form.type, data).reshape(len(data), -1)
    packed = aligned(form.packed_nbytes(len(data), columns))
    for thread in range(threads):
        function = compiled(repack(form))
        function(thread, threads, data.ctypes.data, packed.ctypes.data, len(data), columns)
    return packed


def records_of(x: Floats, panel: int) -> Bytes:
    rows, columns = x.shape
    records = aligned(-(-rows // panel) * panel_nbytes(panel, columns))
    size = panel_nbytes(panel, columns)
    quantise_rows(x.ctypes.data, records.ctypes.data, rows, columns, panel, size)
    return records


def dequantized_records(records: Bytes, rows: int) -> NDArray[np.float64]:
    parts = records.reshape(rows, -1, 52)
    values = parts[..., :32].view(np.int8).astype(np.float64)
    scales = np.ascontiguousarray(parts[..., 32:36]).view(np.float32).astype(np.float64)
    return (values * scales).reshape(rows, -1)


class Matrix:
    """A packed matrix and 16 rows of activations, as a tile sees them."""

    def __init__(self, form: WeightFormat, data: Bytes, columns: int, seed: int = 5) -> None:
        rng = np.random.default_rng(seed)
        self.form, self.rows, self.columns = form, len(data), columns
        self.packed = pack(form, data, columns)
        spread = np.exp(rng.standard_normal((16, columns)))
        self.x = (rng.standard_normal((16, columns)) * spread).astype(np.float32)
        self.records = {panel: records_of(self.x, panel) for panel in (1, 8)} if form.is_quantised else {}

    def multiply(self, first: int, rows: int, panel: int | None = None, add: Floats | None = None) -> Floats:
        """Multiply rows first to first + rows (within a panel) with one tile for each 16 outputs."""
        panel = panel or (1 if rows == 1 else PANEL_ROWS)
        groups = -(-self.rows // 16)
        y = np.zeros((rows, 16 * groups), np.float32) if add is None else add.copy()
        function = compiled(tile(self.form, rows, panel if self.form.is_quantised else None))
        blocks = self.form.blocks(self.columns)
        for group in range(groups):
            weights = self.packed.ctypes.data + group * blocks * self.form.nbytes
            output = y.ctypes.data + 64 * group
            function(
                weights, blocks, *self._rows_at(first, panel), output, y.strides[0], int(add is not None)
            )
        return y

    def _rows_at(self, first: int, panel: int) -> tuple[int, int]:
        if not self.form.is_quantised:
            return self.x[first:].ctypes.data, self.x.strides[0]
        address = self.records[panel].ctypes.data + first // panel * panel_nbytes(panel, self.columns)
        return address, first % panel


def matrix(name: str) -> Matrix:
    form = FORMS[name]
    columns = COLUMNS[form.columns]
    return Matrix(form, random_blocks(form.type, (ROWS, columns), seed=3), columns)


def every_product(operand: Matrix, rows: int) -> Iterator[tuple[int, Floats]]:
    """Give the products of all places in the two panels that a tile of so many rows has."""
    for first in range(17 - rows):
        if first % 8 + rows <= 8:
            yield first, operand.multiply(first, rows)


@pytest.mark.parametrize("name", FORMS)
def test_a_row_is_what_gguf_dequantises(name: str) -> None:
    form = FORMS[name]
    columns = COLUMNS[form.columns]
    data = random_blocks(form.type, (ROWS, columns), seed=1, limit=0x7B)
    packed = pack(form, data, columns)
    found = np.zeros((ROWS, columns), np.float32)
    for index in range(ROWS):
        arguments = (packed.ctypes.data, index, form.blocks(columns), found[index].ctypes.data)
        compiled(row(form))(*arguments)
    np.testing.assert_array_equal(found, dequantized(form, data))


@pytest.mark.parametrize("name", ["q4_1", "q6_k", "f16"])
def test_packing_does_not_depend_on_the_number_of_threads(name: str) -> None:
    form = FORMS[name]
    columns = COLUMNS[form.columns]
    data = random_blocks(form.type, (ROWS, columns), seed=2)
    alone = pack(form, data, columns, threads=1)
    for threads in (2, 3, 7):
        np.testing.assert_array_equal(pack(form, data, columns, threads), alone)


@pytest.mark.parametrize("name", FORMS)
def test_a_tile_agrees_with_float64(name: str) -> None:
    operand = matrix(name)
    form = operand.form
    data = random_blocks(form.type, (ROWS, operand.columns), seed=3)
    weights = dequantized(form, data).astype(np.float64)
    x = dequantized_records(operand.records[1], 16) if form.is_quantised else operand.x.astype(np.float64)
    found = np.concatenate([operand.multiply(first, 1) for first in range(16)])
    error = np.abs(found[:, :ROWS] - x @ weights.T)
    assert (error <= 1e-6 * (np.abs(x) @ np.abs(weights).T)).all()
    assert (found[:, ROWS:] == 0).all()


@pytest.mark.parametrize("name", [name for name in FORMS if name not in ALIKE])
def test_bits_do_not_depend_on_the_rows_of_a_tile(name: str) -> None:
    operand = matrix(name)
    one_by_one = np.concatenate([operand.multiply(first, 1) for first in range(16)])
    thorough = name in ("q4_1", "q8_0x2", "q4_k", "q6_k", "f16")
    for rows in TILE_ROWS[1:] if thorough else (8,):
        for first, found in every_product(operand, rows):
            np.testing.assert_array_equal(found, one_by_one[first : first + rows])


@pytest.mark.parametrize("name", ["q4_k", "q6_k"])
def test_a_row_left_over_in_a_panel_has_the_same_bits(name: str) -> None:
    operand = matrix(name)
    for first in (0, 5, 15):
        np.testing.assert_array_equal(operand.multiply(first, 1, panel=8), operand.multiply(first, 1))


@pytest.mark.parametrize("name", ["q4_1", "f32"])
def test_a_tile_adds_to_what_is_there(name: str) -> None:
    operand = matrix(name)
    before = np.random.default_rng(7).standard_normal((4, 48)).astype(np.float32)
    np.testing.assert_array_equal(operand.multiply(0, 4, add=before), before + operand.multiply(0, 4))


@pytest.mark.parametrize("name", ["q4_0x1", "q4_0x2", "q8_0x1", "q8_0x2", "f16", "bf16", "q3_k"])
@pytest.mark.parametrize("blocks", [1, 2, 5])
@pytest.mark.parametrize("rows", [1, 16, 17])
def test_odd_sizes_work(name: str, blocks: int, rows: int) -> None:
    form = FORMS[name]
    columns = form.columns * blocks
    data = random_blocks(form.type, (rows, columns), seed=4)
    operand = Matrix(form, data, columns)
    x = dequantized_records(operand.records[1], 16) if form.is_quantised else operand.x.astype(np.float64)
    weights = dequantized(form, data).astype(np.float64)
    error = np.abs(operand.multiply(2, 3)[:, :rows] - x[2:5] @ weights.T)
    assert (error <= 1e-6 * (np.abs(x[2:5]) @ np.abs(weights).T)).all()


@pytest.mark.parametrize("name", FORMS)
def test_any_finite_scales_give_finite_results(name: str) -> None:
    form = FORMS[name]
    columns = COLUMNS[form.columns]
    limit = 0x3F if form.type in (GgmlType.BF16, GgmlType.IQ1_M) else 0x7B
    data = random_blocks(form.type, (ROWS, columns), seed=6, limit=limit)
    assert np.isfinite(Matrix(form, data, columns).multiply(0, 8)).all()


def test_the_packed_size_stays_near_the_size_in_the_file() -> None:
    for form in FORMS.values():
        assert form.file_nbytes * 16 <= form.nbytes <= 1.055 * form.file_nbytes * 16


def test_the_widest_block_that_divides_the_columns_is_chosen() -> None:
    assert packed_format(GgmlType.Q4_0, 128).columns == 64
    assert packed_format(GgmlType.Q4_0, 96).columns == 32
    assert packed_format(GgmlType.F16, 77).columns == 1


@pytest.mark.parametrize(("type_", "columns"), [(GgmlType.Q8_K, 256), (GgmlType.Q4_K, 128)])
def test_a_matrix_without_a_packed_form_is_an_error(type_: GgmlType, columns: int) -> None:
    with pytest.raises(BackendFailure, match=f"{type_.name} weights of {columns} columns"):
        packed_format(type_, columns)


def test_names_of_formats_are_unique() -> None:
    assert len(FORMS) == len({id(form) for forms in PACKED_FORMATS.values() for form in forms})


def digest(names: Sequence[str]) -> str:
    """Hash a row's products of some types, and three rows' for two of them."""
    result = hashlib.sha256()
    for name in names:
        operand = matrix(name)
        for rows in (1, 3) if name in ("q4_0x2", "q6_k") else (1,):
            result.update(operand.multiply(2, rows).tobytes())
    return result.hexdigest()


FEW = ["q4_0x2", "q4_k", "q6_k", "iq2_s", "mxfp4x1", "f16"]
"""Whole blocks, blocks in blocks with minima and without, a codebook, blocks at odd addresses, floats."""
MOST = [forms[0].name for forms in PACKED_FORMATS.values() if forms[0].name not in ALIKE]


@pytest.mark.parametrize("names", [FEW, pytest.param(MOST, marks=pytest.mark.slow)], ids=["few", "most"])
@pytest.mark.parametrize(
    ("cpu", "needs"),
    [("alderlake", {"avx2", "fma", "avxvnni"}), ("haswell", {"avx2", "fma"}), ("x86-64", {"sse2"})],
)
def test_instruction_sets_give_the_same_bits(cpu: str, needs: set[str], names: list[str]) -> None:
    if not needs <= target_features():
        pytest.skip(f"this processor cannot run code for {cpu}")
    environment = {**os.environ, "NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ""}
    command = [sys.executable, __file__, *names]
    other = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert other.stdout == digest(names)


if __name__ == "__main__":
    sys.stdout.write(digest(sys.argv[1:]))
