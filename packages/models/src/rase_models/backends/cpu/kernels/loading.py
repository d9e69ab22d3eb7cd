"""Repacking of weights, a part of the rows for each thread."""

from typing import Any

from rase_models.backends.cpu.abi import K, N, W, X
from rase_models.backends.cpu.kernels.forms import form_named
from rase_models.backends.cpu.packing import repack
from rase_models.backends.cpu.simd import load_i64


def repack_matrix(format_name: str) -> Any:
    """Build the kernel that repacks the matrix X of the file, N rows of K columns, into W."""
    repack_part = repack(form_named(format_name))

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        source, target = load_i64(op + X), load_i64(op + W)
        repack_part(thread, threads, source, target, load_i64(op + N), load_i64(op + K))

    return kernel
