// Sums and maxima over the lanes of a warp and the warps of a block.
#pragma once
#include "numbers.cuh"
#define WARP 32
#define ALL_LANES 0xffffffffu

__device__ __forceinline__ float warp_sum(float value) {
    for (int step = WARP / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL_LANES, value, step);
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
    for (int step = WARP / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, step));
    return value;
}

// `scratch` has a place for each warp; the block may use it again after the next barrier only.
__device__ __forceinline__ float block_sum(float value, float* scratch) {
    value = warp_sum(value);
    if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int warp = 0; warp < (int)blockDim.x / WARP; ++warp) sum += scratch[warp];
    __syncthreads();
    return sum;
}

__device__ __forceinline__ float block_max(float value, float* scratch) {
    value = warp_max(value);
    if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = value;
    __syncthreads();
    float best = scratch[0];
    for (int warp = 1; warp < (int)blockDim.x / WARP; ++warp) best = fmaxf(best, scratch[warp]);
    __syncthreads();
    return best;
}
