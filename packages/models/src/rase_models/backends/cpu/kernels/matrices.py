"""The walk of a matrix multiplication over tiles of rows, for one group of 16 outputs."""

from typing import Any

from rase_models.backends.cpu.activations import PANEL_ROWS, RECORD_COLUMNS, RECORD_ROW_NBYTES
from rase_models.backends.cpu.packing import WeightFormat, tile
from rase_models.backends.cpu.simd import compiled
from rase_models.backends.cpu.tiles import NEAR


def multiply_group(form: WeightFormat) -> Any:
    """Return the compiled function that multiplies one group of 16 outputs with rows.

    It is multiply(weights, blocks, x, x_stride, alone, first, last, y, y_stride, add): `x` is the address
    of records or, for float weights, of float32 rows `x_stride` bytes apart; `alone` is 1 when the run has
    one row; the rows from first, a multiple of 8, to last are written from y on, perhaps with some more, up
    to a multiple of 8.
    """
    return _multiply_records(form) if form.is_quantised else _multiply_floats(form)


def _multiply_records(form: WeightFormat) -> Any:
    single, two, four, eight = tile(form, 1, 1), tile(form, 2), tile(form, 4), tile(form, 8)
    panel_of_block = form.columns // RECORD_COLUMNS * RECORD_ROW_NBYTES * PANEL_ROWS

    @compiled
    def multiply(
        weights: int,
        blocks: int,
        x: int,
        x_stride: int,
        alone: int,
        first: int,
        last: int,
        y: int,
        y_stride: int,
        add: int,
    ) -> None:
        if alone:
            single(weights, blocks, x, 0, y, y_stride, add)
            return
        panel, flags = x + (first >> 3) * blocks * panel_of_block, add
        for row in range(first, last, PANEL_ROWS):
            if last - row > 4:
                eight(weights, blocks, panel, 0, y, y_stride, flags)
            elif last - row > 2:
                four(weights, blocks, panel, 0, y, y_stride, flags)
            else:
                two(weights, blocks, panel, 0, y, y_stride, flags)
            panel += blocks * panel_of_block
            y += PANEL_ROWS * y_stride
            flags = add | NEAR

    return multiply


def _multiply_floats(form: WeightFormat) -> Any:
    single, four, eight = tile(form, 1), tile(form, 4), tile(form, 8)

    @compiled
    def multiply(
        weights: int,
        blocks: int,
        x: int,
        x_stride: int,
        alone: int,
        first: int,
        last: int,
        y: int,
        y_stride: int,
        add: int,
    ) -> None:
        if alone:
            single(weights, blocks, x, x_stride, y, y_stride, add)
            return
        source = x + first * x_stride
        for row in range(first, last, PANEL_ROWS):
            if last - row > 4:
                eight(weights, blocks, source, x_stride, y, y_stride, add)
            else:
                four(weights, blocks, source, x_stride, y, y_stride, add)
            source += PANEL_ROWS * x_stride
            y += PANEL_ROWS * y_stride

    return multiply
