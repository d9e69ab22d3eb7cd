"""Copies of rows: of those whose logits are wanted, or of float32 rows into records."""

from typing import Any

from rase_models.backends.cpu.abi import N
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.outputs import write_values
from rase_models.backends.cpu.kernels.rows import input_row, is_replicated, row_count
from rase_models.backends.cpu.simd import compiled, load_i64


@compiled
def _copy_row(thread: int, op: int, context: int, row: int) -> None:
    width = (load_i64(op + N) + 15) & ~15
    write_values(thread, op, context, row, 0, input_row(op, context, row), width)


def copy_rows() -> Any:
    """Build the kernel that writes rows of X, N wide, as float32 or records."""
    shared = compiled(share(row_count, _copy_row, 4))

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        if is_replicated(op, context):
            _copy_row(thread, op, context, 0)
        else:
            shared(thread, threads, op, context)

    return kernel
