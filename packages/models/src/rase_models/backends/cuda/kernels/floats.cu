// Matrices of floats, in the type that the macro ELEMENT names (F32, F16 or Bf16).
#include "product.cuh"
typedef ELEMENT Element;
typedef Element::Stored Stored;
#define VECTOR (16 / (int)sizeof(Stored))

// A matrix, and x in float32.
struct Weights {
    const Stored* weights;
    const float* x;

    // 16 bytes at a time where rows allow it.
    template <int ROWS>
    __device__ __forceinline__ void dots(float* sums, i64 row, int columns, const i64* parts, int count) const {
        const Stored* own = weights + row * columns;
        int lane = threadIdx.x % WARP;
        if (columns % VECTOR != 0) {
            for (int column = lane; column < columns; column += WARP) {
                float weight = Element::get(own[column]);
#pragma unroll
                for (int index = 0; index < ROWS; ++index)
                    if (index < count) sums[index] += weight * x[parts[index] * columns + column];
            }
            return;
        }
        for (int column = lane * VECTOR; column < columns; column += WARP * VECTOR) {
            uint4 whole = *(const uint4*)(own + column);
            const Stored* values = (const Stored*)&whole;
#pragma unroll
            for (int index = 0; index < ROWS; ++index) {
                if (index >= count) break;
                const float4* source = (const float4*)(x + parts[index] * columns + column);
#pragma unroll
                for (int four = 0; four < VECTOR / 4; ++four) {
                    float4 other = source[four];
                    sums[index] += Element::get(values[4 * four]) * other.x + Element::get(values[4 * four + 1]) * other.y +
                                   Element::get(values[4 * four + 2]) * other.z + Element::get(values[4 * four + 3]) * other.w;
                }
            }
        }
    }
};

#define X_PARAMETERS const float *x
#define PLANE_PARAMETERS const Stored *low
#define SECOND_PARAMETERS const Stored *low2
#define THIRD_PARAMETERS const Stored *low3
#define WEIGHTS \
    Weights { low, x }
#define SECOND \
    Weights { low2, x }
#define THIRD \
    Weights { low3, x }

extern "C" __global__ void multiply_one(PRODUCT_PARAMETERS, PLANE_PARAMETERS, X_PARAMETERS) {
    multiply<1>(PRODUCT, WEIGHTS);
}

extern "C" __global__ void multiply_four(PRODUCT_PARAMETERS, PLANE_PARAMETERS, X_PARAMETERS) {
    multiply<4>(PRODUCT, WEIGHTS);
}

extern "C" __global__ void multiply_eight_grouped(
    PRODUCT_PARAMETERS, const int* order, const int4* tiles, PLANE_PARAMETERS, X_PARAMETERS) {
    multiply_grouped<8>(PRODUCT, WEIGHTS, order, tiles);
}

extern "C" __global__ void multiply_one_gated(
    PRODUCT_PARAMETERS, const float* up_bias, const float* up_scales, int kind, PLANE_PARAMETERS, SECOND_PARAMETERS,
    X_PARAMETERS) {
    multiply_gated<1>(PRODUCT, UP_PRODUCT, WEIGHTS, SECOND, kind);
}

extern "C" __global__ void multiply_four_gated(
    PRODUCT_PARAMETERS, const float* up_bias, const float* up_scales, int kind, PLANE_PARAMETERS, SECOND_PARAMETERS,
    X_PARAMETERS) {
    multiply_gated<4>(PRODUCT, UP_PRODUCT, WEIGHTS, SECOND, kind);
}

extern "C" __global__ void multiply_one_joined(
    JOINED_PARAMETERS, PLANE_PARAMETERS, SECOND_PARAMETERS, THIRD_PARAMETERS, X_PARAMETERS) {
    multiply_joined<1>(SEGMENTS, rows, columns);
}

extern "C" __global__ void multiply_four_joined(
    JOINED_PARAMETERS, PLANE_PARAMETERS, SECOND_PARAMETERS, THIRD_PARAMETERS, X_PARAMETERS) {
    multiply_joined<4>(SEGMENTS, rows, columns);
}

extern "C" __global__ void dequantise(f16* out, const Stored* weights, i64 count) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) out[index] = float_to_half(Element::get(weights[index]));
}

extern "C" __global__ void look_up(float* out, const Stored* weights, const int* numbers, int columns, float scale) {
    const Stored* row = weights + (i64)numbers[blockIdx.x] * columns;
    for (int column = threadIdx.x; column < columns; column += blockDim.x)
        out[(i64)blockIdx.x * columns + column] = Element::get(row[column]) * scale;
}
