#include "q8.cuh"

// A warp for each group of 32 values.
extern "C" __global__ void quantise(i8* codes, float4* scales, const float* x, i64 groups) {
    i64 group = (i64)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (group >= groups) return;
    quantise_group(x[group * WARP + threadIdx.x % WARP], group, codes, scales);
}
