"""The kernels that multiply and look up matrices in the blocks of a file, by BLOCK_FORMATS.

Two bodies in Metal Shading Language serve all types. MLX writes their signatures and compiles them when they
first run; in tests a C++ compiler does. No Apple compiler has read them yet.
"""

from dataclasses import dataclass
from functools import cache

import mlx.core as mx

from rase_models.backends.metal.block_formats import BLOCK_FORMATS, PART, PRELUDE
from rase_models.backends.metal.kernel_maker import LANES, Kernel, KernelMaker
from rase_models.gguf.types import TYPE_LAYOUTS, GgmlType

MOST_ROWS = 4
"""Rows of one product."""
_OUTS = 4  # rows of the matrix of a SIMD group, which share what it reads of x
_SIMD_GROUPS = 4

_DECODE = """
enum : uint { PARTS = %(parts)d, BLOCK_BYTES = %(nbytes)d, OUTS = %(outs)d };

inline void decode(const device uint8_t* block, uint part, const device int8_t* values, thread float* w) {
%(decode)s
}
"""

_PRODUCT = """
    // A SIMD group makes OUTS values of ROWS rows: out[row, o] = sum of x[row, i] * matrix[o, i].
    uint lane = thread_index_in_simdgroup, pair = thread_position_in_grid.y;
    uint first = thread_position_in_grid.x / 32 * OUTS;
    uint outs = sizes[0], parts = sizes[1];
    ulong row_bytes = ulong(parts / PARTS) * BLOCK_BYTES;
    const device uint8_t* matrix = blocks + ulong(experts[pair]) * outs * row_bytes;
    const device float* rows = x + ulong(pair / sizes[2]) * ROWS * parts * 16;
    float sums[OUTS][ROWS];
    for (uint o = 0; o < OUTS; ++o) for (int r = 0; r < ROWS; ++r) sums[o][r] = 0;
    for (uint part = lane; part < parts; part += 32) {
        float given[ROWS][16];
        for (int r = 0; r < ROWS; ++r) {
            const device float4* fours = (const device float4*)(rows + (ulong(r) * parts + part) * 16);
            for (uint j = 0; j < 4; ++j) {
                float4 four = fours[j];
                given[r][4 * j] = four.x, given[r][4 * j + 1] = four.y;
                given[r][4 * j + 2] = four.z, given[r][4 * j + 3] = four.w;
            }
        }
        for (uint o = 0; o < OUTS; ++o) {
            uint row = min(first + o, outs - 1);
            float w[16];
            decode(matrix + row * row_bytes + part / PARTS * BLOCK_BYTES, part % PARTS, values, w);
            for (int r = 0; r < ROWS; ++r) for (uint j = 0; j < 16; ++j) sums[o][r] += given[r][j] * w[j];
        }
    }
    for (uint o = 0; o < OUTS; ++o) {
        for (int r = 0; r < ROWS; ++r) {
            float sum = simd_sum(sums[o][r]);
            if (lane == 0 && first + o < outs) out[(ulong(pair) * ROWS + r) * outs + first + o] = sum;
        }
    }
"""

_LOOK_UP = """
    // A thread decodes one part of one row.
    uint part = thread_position_in_grid.x, row = thread_position_in_grid.y, parts = sizes[1];
    ulong row_bytes = ulong(parts / PARTS) * BLOCK_BYTES;
    float w[16];
    decode(blocks + indices[row] * row_bytes + part / PARTS * BLOCK_BYTES, part % PARTS, values, w);
    device T* target = out + (ulong(row) * parts + part) * 16;
    for (uint j = 0; j < 16; ++j) target[j] = T(w[j]);
"""


@dataclass(frozen=True, slots=True)
class BlockKernels:
    """The kernels of a type.

    Attributes:
        values: what the codes mean, int8.
    """

    values: mx.array
    _product: Kernel
    _look_up: Kernel

    def product(self, blocks: mx.array, x: mx.array, experts: mx.array, outs: int, shared: int) -> mx.array:
        """Return the products of x with matrices of a stack, float32 [pairs, rows, outs].

        x is float32 [pairs / shared, rows, columns], `experts` uint32 [pairs], the matrix of each pair. At
        most MOST_ROWS rows; blocks are uint8 [matrices * outs, bytes of a row].
        """
        pairs, (_, rows, columns) = experts.size, x.shape
        sizes = mx.array([outs, columns // PART, shared], mx.uint32)
        groups = -(-outs // _OUTS)
        return self._product(
            inputs=[blocks, self.values, x, experts, sizes],
            template=[("ROWS", rows)],
            grid=(LANES * groups, pairs, 1),
            threadgroup=(LANES * min(groups, _SIMD_GROUPS), 1, 1),
            output_shapes=[(pairs, rows, outs)],
            output_dtypes=[mx.float32],
        )[0]

    def look_up(self, blocks: mx.array, indices: mx.array, columns: int, dtype: mx.Dtype) -> mx.array:
        """Return rows [indices, columns] of blocks, uint8 [rows, bytes of a row]; indices are uint32."""
        parts = columns // PART
        return self._look_up(
            inputs=[blocks, self.values, indices, mx.array([0, parts], mx.uint32)],
            template=[("T", dtype)],
            grid=(parts, indices.size, 1),
            threadgroup=(LANES, 1, 1),
            output_shapes=[(indices.size, columns)],
            output_dtypes=[dtype],
        )[0]


@cache
def block_kernels(type_: GgmlType, make: KernelMaker) -> BlockKernels:
    """Make the kernels of a type."""
    columns, nbytes = TYPE_LAYOUTS[type_]
    format_ = BLOCK_FORMATS[type_]
    text = _DECODE % {
        "parts": columns // PART,
        "nbytes": nbytes,
        "outs": _OUTS,
        "decode": format_.decode.strip("\n"),
    }
    name, header = type_.name.lower(), PRELUDE + text
    return BlockKernels(
        mx.array(format_.values().reshape(-1)),
        make(
            f"product_{name}", ["blocks", "values", "x", "experts", "sizes"], ["out"], _PRODUCT, header=header
        ),
        make(f"look_up_{name}", ["blocks", "values", "indices", "sizes"], ["out"], _LOOK_UP, header=header),
    )
