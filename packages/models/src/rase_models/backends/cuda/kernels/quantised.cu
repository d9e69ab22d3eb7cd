#include "format.cuh"
#include "product.cuh"

// A matrix, and x in codes of 8 bits with (d, d * sum of the first half, d * sum of the second half) for 32 of them.
struct Weights {
    Planes planes;
    const i8* x;
    const float4* x_scales;

    template <int ROWS>
    __device__ __forceinline__ void dots(float* sums, i64 row, int columns, const i64* parts, int count) const {
        int groups = columns / 32;
        for (int group = threadIdx.x % WARP; group < groups; group += WARP) {
            Group weights = read_group(planes, row * groups + group);
#pragma unroll
            for (int index = 0; index < ROWS; ++index) {
                if (index >= count) break;
                i64 place = parts[index] * groups + group;
                const int4* codes = (const int4*)(x + place * 32);
                int4 low = codes[0], high = codes[1];
                float4 own = x_scales[place];
                int dot = __dp4a(weights.codes[0], low.x, __dp4a(weights.codes[1], low.y, 0));
                dot = __dp4a(weights.codes[2], low.z, __dp4a(weights.codes[3], low.w, dot));
                int upper = __dp4a(weights.codes[4], high.x, __dp4a(weights.codes[5], high.y, 0));
                upper = __dp4a(weights.codes[6], high.z, __dp4a(weights.codes[7], high.w, upper));
                float scaled = weights.scale[0] * (float)dot + weights.scale[1] * (float)upper;
                sums[index] += own.x * scaled + weights.offset[0] * own.y + weights.offset[1] * own.z;
            }
        }
    }
};

#define X_PARAMETERS const i8 *x, const float4 *x_scales
#define PLANE_PARAMETERS const u8 *low, const u8 *high, const u8 *scales, const u8 *supers
#define SECOND_PARAMETERS const u8 *low2, const u8 *high2, const u8 *scales2, const u8 *supers2
#define THIRD_PARAMETERS const u8 *low3, const u8 *high3, const u8 *scales3, const u8 *supers3
#define PLANES \
    Planes { low, high, scales, supers }
#define WEIGHTS \
    Weights { PLANES, x, x_scales }
#define SECOND \
    Weights { {low2, high2, scales2, supers2}, x, x_scales }
#define THIRD \
    Weights { {low3, high3, scales3, supers3}, x, x_scales }

#include "product_kernels.cuh"

// A thread for each group: f16 [groups, 32].
extern "C" __global__ void dequantise(f16* out, PLANE_PARAMETERS, i64 groups) {
    i64 group = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (group >= groups) return;
    Planes planes = PLANES;
    Group weights = read_group(planes, group);
    for (int eight = 0; eight < 4; ++eight) {
        u32 words[4];
        for (int pair = 0; pair < 4; ++pair) {
            int column = eight * 8 + pair * 2;
            u32 below = float_to_half(value_of(weights, column)), above = float_to_half(value_of(weights, column + 1));
            words[pair] = below | above << 16;
        }
        ((uint4*)out)[group * 4 + eight] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

// Rows of the matrix, by their numbers: grid [rows], a thread for each group.
extern "C" __global__ void look_up(float* out, PLANE_PARAMETERS, const int* numbers, int columns, float scale) {
    Planes planes = PLANES;
    int groups = columns / 32;
    for (int group = threadIdx.x; group < groups; group += blockDim.x) {
        Group weights = read_group(planes, (i64)numbers[blockIdx.x] * groups + group);
        float* target = out + (i64)blockIdx.x * columns + group * 32;
        for (int column = 0; column < 32; ++column) target[column] = value_of(weights, column) * scale;
    }
}
