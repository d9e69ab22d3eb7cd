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

#include "product_kernels.cuh"

extern "C" __global__ void dequantise(f16* out, const Stored* weights, i64 count) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) out[index] = float_to_half(Element::get(weights[index]));
}

extern "C" __global__ void look_up(float* out, const Stored* weights, const int* numbers, int columns, float scale) {
    const Stored* row = weights + (i64)numbers[blockIdx.x] * columns;
    for (int column = threadIdx.x; column < columns; column += blockDim.x)
        out[(i64)blockIdx.x * columns + column] = Element::get(row[column]) * scale;
}
