"""Repacking of weights, which the threads share."""

from typing import Any

from rase_models.backends.cpu.abi import K, N, W, X
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.forms import form_named
from rase_models.backends.cpu.packing import repack
from rase_models.backends.cpu.simd import compiled, load_i64


@compiled
def _group_count(op: int, context: int) -> int:
    return int((load_i64(op + N) + GROUP_ROWS - 1) // GROUP_ROWS)


def repack_matrix(format_name: str) -> Any:
    """Build the kernel that repacks the matrix X of the file, N rows of K columns, into W."""
    repack_part = repack(form_named(format_name))

    @compiled
    def repack_group(thread: int, op: int, context: int, group: int) -> None:
        groups, rows, columns = _group_count(op, context), load_i64(op + N), load_i64(op + K)
        repack_part(group, groups, load_i64(op + X), load_i64(op + W), rows, columns)

    return share(_group_count, repack_group, 8)
