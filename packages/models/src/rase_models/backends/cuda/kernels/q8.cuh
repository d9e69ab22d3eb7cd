// Activations in 8 bits: for 32 columns 32 codes and (d, d * sum of codes 0-15, d * sum of codes 16-31, 0).
#pragma once
#include "reduction.cuh"

// Called by all lanes of a warp for one group; lane i has column i.
__device__ __forceinline__ void quantise_group(float value, i64 group, i8* codes, float4* scales) {
    int lane = threadIdx.x % WARP;
    float d = warp_max(fabsf(value)) / 127.0f;
    int code = d > 0.0f ? __float2int_rn(value / d) : 0;
    float sum = (float)code;
    for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, step);
    float high = __shfl_sync(ALL_LANES, sum, 16);
    codes[group * WARP + lane] = (i8)code;
    if (lane == 0) scales[group] = make_float4(d, d * sum, d * high, 0.0f);
}
