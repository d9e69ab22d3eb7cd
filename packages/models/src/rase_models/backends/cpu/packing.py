"""The packed forms of all weight types, and their compiled functions.

    form = packed_format(GgmlType.Q4_K, columns=1024)
    form.packed_nbytes(rows, columns), form.blocks(columns), form.nbytes, form.is_quantised, form.name
    repack(form)(thread, threads, source, target, rows, columns)
    row(form)(weights, row, blocks, y)
    tile(form, rows)(weights, blocks, x, row, y, y_stride, flags)

The table needs neither numba nor a compiler; `repack`, `row` and `tile` import numba when called, and give
functions for compiled code, whose arguments are int64. `tiles`, `dequantisation` and `repacking` say what
they mean.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from rase_core.errors import BackendFailure

from rase_models.backends.cpu import dequantisation, repacking, tiles
from rase_models.backends.cpu.activations import PANEL_ROWS
from rase_models.backends.cpu.formats.codes import Nibbles, Planes
from rase_models.backends.cpu.formats.floats import BF16_FORMAT, F16_FORMAT, F32_FORMAT, FloatFormat
from rase_models.backends.cpu.formats.fp4 import MXFP4, NVFP4
from rase_models.backends.cpu.formats.iq4 import IQ4_NL, IQ4_XS
from rase_models.backends.cpu.formats.packed_format import PackedFormat
from rase_models.backends.cpu.formats.q4 import Q4_0, Q4_1
from rase_models.backends.cpu.formats.q5 import Q5_0, Q5_1
from rase_models.backends.cpu.formats.q6_k import Q6_K
from rase_models.backends.cpu.formats.q8 import Q8_0
from rase_models.backends.cpu.formats.q23_k import Q2_K, Q3_K
from rase_models.backends.cpu.formats.q45_k import Q4_K, Q5_K
from rase_models.gguf.types import GgmlType

if TYPE_CHECKING:
    from rase_models.backends.cpu.simd.operation import Operation

WeightFormat: TypeAlias = PackedFormat | FloatFormat

TILE_ROWS = (1, 2, 4, 8)
"""The numbers of rows that there is a tile for. Others were no faster than the next larger one of these."""

_Q2_K = Q2_K()

PACKED_FORMATS: Mapping[GgmlType, tuple[WeightFormat, ...]] = {
    GgmlType.F32: (F32_FORMAT,),
    GgmlType.F16: (F16_FORMAT,),
    GgmlType.BF16: (BF16_FORMAT,),
    GgmlType.Q4_0: (Q4_0(2), Q4_0(1)),
    GgmlType.Q4_1: (Q4_1(),),
    GgmlType.Q5_0: (Q5_0(2), Q5_0(1)),
    GgmlType.Q5_1: (Q5_1(),),
    GgmlType.Q8_0: (Q8_0(2), Q8_0(1)),
    GgmlType.Q2_K: (_Q2_K,),
    GgmlType.Q3_K: (Q3_K(),),
    GgmlType.Q4_K: (Q4_K(),),
    GgmlType.Q5_K: (Q5_K(),),
    GgmlType.Q6_K: (Q6_K(),),
    GgmlType.IQ4_NL: (IQ4_NL(2), IQ4_NL(1)),
    GgmlType.IQ4_XS: (IQ4_XS(),),
    GgmlType.IQ1_S: (Planes(GgmlType.IQ1_S),),
    GgmlType.IQ1_M: (Planes(GgmlType.IQ1_M),),
    GgmlType.IQ2_XXS: (Planes(GgmlType.IQ2_XXS),),
    GgmlType.IQ2_XS: (Planes(GgmlType.IQ2_XS),),
    GgmlType.IQ2_S: (Planes(GgmlType.IQ2_S),),
    GgmlType.IQ3_XXS: (Nibbles(GgmlType.IQ3_XXS),),
    GgmlType.IQ3_S: (Nibbles(GgmlType.IQ3_S),),
    GgmlType.TQ1_0: (_Q2_K,),
    GgmlType.TQ2_0: (_Q2_K,),
    GgmlType.MXFP4: (MXFP4(2), MXFP4(1)),
    GgmlType.NVFP4: (NVFP4(),),
}
"""The packed forms of a file's type: the first one whose block divides the columns is used."""


def packed_format(type_: GgmlType, columns: int) -> WeightFormat:
    """Return the packed form for matrices of so many columns.

    Raises:
        BackendFailure: the type has no packed form, or the columns are not a multiple of its block.
    """
    for form in PACKED_FORMATS.get(type_, ()):
        if columns % form.columns == 0:
            return form
    known = ", ".join(sorted(entry.name for entry in PACKED_FORMATS))
    raise BackendFailure(
        f"the CPU backend cannot multiply with {type_.name} weights of {columns} columns",
        f"use a model file whose weights are of these types: {known}",
    )


@cache
def repack(form: WeightFormat) -> "Operation":
    """Return the compiled-code function that repacks a matrix."""
    from rase_models.backends.cpu.simd.operation import i64, operation, void

    return operation(void, *[i64] * 6)(repacking.repack(form))


@cache
def row(form: WeightFormat) -> "Operation":
    """Return the compiled-code function that dequantises a row of a packed matrix to float32."""
    from rase_models.backends.cpu.simd.operation import i64, operation, void

    if isinstance(form, FloatFormat):
        return operation(void, *[i64] * 4)(dequantisation.float_row(form))
    return operation(void, *[i64] * 4)(dequantisation.quantised_row(form))


@cache
def tile(form: WeightFormat, rows: int, panel: int | None = None) -> "Operation":
    """Return the compiled-code function that multiplies 16 outputs x `rows` rows, one of `TILE_ROWS`.

    Activation records are in panels of `panel` rows: 8, or 1 for the only row of a step, which is the
    default for one row. Float weights have no panels.
    """
    from rase_models.backends.cpu.simd.operation import i64, operation, void

    if isinstance(form, FloatFormat):
        return operation(void, *[i64] * 7)(tiles.float_tile(form, rows))
    panel = panel or (1 if rows == 1 else PANEL_ROWS)
    return operation(void, *[i64] * 7)(tiles.quantised_tile(form, rows, panel))
