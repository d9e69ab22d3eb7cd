// Matrices of floats, in the type that the macro ELEMENT names (F32, F16 or Bf16).
#include "product.cuh"
typedef ELEMENT Element;
typedef Element::Stored Stored;
#define VECTOR (16 / (int)sizeof(Stored))

// The part of a dot product that a lane computes, 16 bytes at a time where rows allow it.
__device__ __forceinline__ float dot(const Stored* weights, const float* x, int columns, int lane) {
    float sum = 0.0f;
    if (columns % VECTOR != 0) {
        for (int column = lane; column < columns; column += WARP) sum += Element::get(weights[column]) * x[column];
        return sum;
    }
    for (int column = lane * VECTOR; column < columns; column += WARP * VECTOR) {
        uint4 whole = *(const uint4*)(weights + column);
        const Stored* values = (const Stored*)&whole;
        for (int place = 0; place < VECTOR; ++place) sum += Element::get(values[place]) * x[column + place];
    }
    return sum;
}

template <int ROWS>
__device__ void multiply(const Product& product, const Stored* weights, const float* x) {
    int out = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int first = blockIdx.y * ROWS, part = blockIdx.z, columns = product.columns;
    if (out >= product.outs) return;
    int matrix = matrix_of(product, first, part);
    const Stored* own = weights + ((i64)matrix * product.stride + out) * columns;
    for (int index = 0; index < ROWS && first + index < product.rows; ++index) {
        float sum = warp_sum(dot(own, x + x_part(product, first + index, part) * columns, columns, lane));
        if (lane == 0) keep(product, first + index, part, matrix, out, sum);
    }
}

extern "C" __global__ void multiply_one(PRODUCT_PARAMETERS, const Stored* weights, const float* x) {
    multiply<1>(PRODUCT, weights, x);
}

extern "C" __global__ void multiply_four(PRODUCT_PARAMETERS, const Stored* weights, const float* x) {
    multiply<4>(PRODUCT, weights, x);
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
