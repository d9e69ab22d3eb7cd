#include "q8.cuh"

// RMS norm, or layer norm when `centred`, of parts of rows: grid [parts, rows]. Where there are `codes`, which is
// for whole rows in multiples of 32, the result is quantised too.
extern "C" __global__ void normalise(
    float* out, const float* x, const float* weight, const float* bias, int width, int shared, int centred,
    float eps, i8* codes, float4* scales) {
    __shared__ float scratch[WARP];
    i64 start = ((i64)blockIdx.y * gridDim.x + blockIdx.x) * width;
    int own = shared ? 0 : blockIdx.x * width;
    float mean = 0.0f, squares = 0.0f;
    if (centred) {
        float sum = 0.0f;
        for (int column = threadIdx.x; column < width; column += blockDim.x) sum += x[start + column];
        mean = block_sum(sum, scratch) / width;
    }
    for (int column = threadIdx.x; column < width; column += blockDim.x) {
        float centre = x[start + column] - mean;
        squares += centre * centre;
    }
    float factor = 1.0f / sqrtf(block_sum(squares, scratch) / width + eps);
    for (int column = threadIdx.x; column < width; column += blockDim.x) {
        float value = (x[start + column] - mean) * factor;
        if (weight) value *= weight[own + column];
        if (bias) value += bias[own + column];
        out[start + column] = value;
        if (codes) quantise_group(value, (start + column) / WARP, codes, scales);
    }
}
