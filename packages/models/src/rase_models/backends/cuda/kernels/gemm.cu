// What goes before and after a product by cuBLAS.
#include "reduction.cuh"

// Rows as f16, each divided by its largest magnitude, which `largest` gets, so that none overflows. Grid [rows].
extern "C" __global__ void to_half(f16* out, float* largest, const float* x, int columns) {
    __shared__ float scratch[WARP];
    const float* row = x + (i64)blockIdx.x * columns;
    float best = 0.0f;
    for (int column = threadIdx.x; column < columns; column += blockDim.x) best = fmaxf(best, fabsf(row[column]));
    best = block_max(best, scratch);
    float factor = best > 1e-37f ? 1.0f / best : 0.0f;  // of less it would be infinite
    for (int column = threadIdx.x; column < columns; column += blockDim.x)
        out[(i64)blockIdx.x * columns + column] = float_to_half(row[column] * factor);
    if (threadIdx.x == 0) largest[blockIdx.x] = best;
}

// out = out * largest of the row * scale + bias * bias_scale.
extern "C" __global__ void finish(
    float* out, const float* largest, const float* bias, int columns, i64 count, float scale, float bias_scale) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    float value = out[index] * scale;
    if (largest) value *= largest[index / columns];
    if (bias) value += bias[index % columns] * bias_scale;
    out[index] = value;
}
