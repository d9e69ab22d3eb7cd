"""Quantising activations inside a kernel."""

from rase_models.backends.cpu.activations import emit_quantise
from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import Value
from rase_models.backends.cpu.simd.operation import f32x16, i64, operation, void


@operation(void, f32x16, f32x16, i64, i64, i64)
def quantise32(code: Code, low: Value, high: Value, record: Value, row: Value, panel: Value) -> None:
    """Quantise 32 values into row `row` of the activation record of `panel` rows at an address."""
    emit_quantise(code, low, high, record, row, panel)
