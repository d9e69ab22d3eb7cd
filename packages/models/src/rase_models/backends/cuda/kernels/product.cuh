// What products of rows with matrices have in common: which matrix of a stack, and what is done with a sum.
//
// `Weights` is quantised.cu's or floats.cu's: `dots` adds up what a lane computes of the products of one row of a
// matrix with some parts of x, so that the matrix is read once for all of them.
#pragma once
#include "activation.cuh"
#include "reduction.cuh"

// Part `part` of row `row` is multiplied by matrix `choice[row, part]` of a stack, or by matrix `part`.
struct Product {
    float* out;
    int rows;
    int outs;      // of a matrix
    int columns;
    int parts;     // of out
    int x_parts;   // of x: `parts`, or 1 where all share it
    int stride;    // rows from a matrix of the stack to the next
    const int* choice;
    const float* bias;         // [matrices, outs]
    const float* part_scales;  // [matrices]
    float scale;
    float bias_scale;
};

// Parts of x, and where the results go: parts of out.
template <int ROWS>
struct Parts {
    i64 x[ROWS];
    i64 out[ROWS];
    int count;
};

__device__ __forceinline__ int matrix_of(const Product& product, int row, int part) {
    return product.choice ? product.choice[row * product.parts + part] : part;
}

__device__ __forceinline__ i64 x_part(const Product& product, int row, int part) {
    return (i64)row * product.x_parts + (product.x_parts == 1 ? 0 : part);
}

template <int ROWS>
__device__ __forceinline__ Parts<ROWS> neighbours(const Product& product, int first, int part) {
    Parts<ROWS> found;
    found.count = min(ROWS, product.rows - first);
#pragma unroll
    for (int index = 0; index < ROWS; ++index) {
        int row = min(first + index, product.rows - 1);
        found.x[index] = x_part(product, row, part);
        found.out[index] = (i64)row * product.parts + part;
    }
    return found;
}

__device__ __forceinline__ float finished(const Product& product, int matrix, int out, float sum) {
    sum *= product.scale;
    if (product.part_scales) sum *= product.part_scales[matrix];
    if (product.bias) sum += product.bias[(i64)matrix * product.outs + out] * product.bias_scale;
    return sum;
}

__device__ __forceinline__ int own_out() { return blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP; }

template <int ROWS, class Weights>
__device__ void multiply_parts(
    const Product& product, const Weights& weights, const Parts<ROWS>& parts, int matrix, int out) {
    float sums[ROWS] = {};
    weights.template dots<ROWS>(sums, (i64)matrix * product.stride + out, product.columns, parts.x, parts.count);
#pragma unroll
    for (int index = 0; index < ROWS; ++index) {
        float sum = warp_sum(sums[index]);
        if (threadIdx.x % WARP == 0 && index < parts.count)
            product.out[parts.out[index] * product.outs + out] = finished(product, matrix, out, sum);
    }
}

// A warp for each row of the matrix: grid [outs / warps, rows of x / ROWS, parts].
template <int ROWS, class Weights>
__device__ void multiply(const Product& product, const Weights& weights) {
    int out = own_out(), first = blockIdx.y * ROWS, part = blockIdx.z;
    if (out >= product.outs) return;
    int matrix = matrix_of(product, first, part);
    multiply_parts<ROWS>(product, weights, neighbours<ROWS>(product, first, part), matrix, out);
}

// Pairs of a row and a part that chose the same matrix: grid [outs / warps, tiles]. A tile is (matrix, first place
// in `order`, how many places), and `order` has row * parts + part.
template <int ROWS, class Weights>
__device__ void multiply_grouped(const Product& product, const Weights& weights, const int* order, const int4* tiles) {
    int out = own_out();
    int4 tile = tiles[blockIdx.y];
    if (out >= product.outs || tile.z == 0) return;
    Parts<ROWS> parts;
    parts.count = tile.z;
#pragma unroll
    for (int index = 0; index < ROWS; ++index) {
        int pair = order[tile.y + min(index, tile.z - 1)];
        parts.x[index] = x_part(product, pair / product.parts, pair % product.parts);
        parts.out[index] = pair;
    }
    multiply_parts<ROWS>(product, weights, parts, tile.x, out);
}

// activation(gate) * up, the product being the gate's: grid as in `multiply`.
template <int ROWS, class Weights>
__device__ void multiply_gated(
    const Product& product, const Product& up, const Weights& gate_weights, const Weights& up_weights, int kind) {
    int out = own_out(), first = blockIdx.y * ROWS, part = blockIdx.z;
    if (out >= product.outs) return;
    int matrix = matrix_of(product, first, part);
    Parts<ROWS> parts = neighbours<ROWS>(product, first, part);
    float gates[ROWS], ups[ROWS];
#pragma unroll 1
    for (int time = 0; time < 2; ++time) {  // once in the code, which takes long to compile
        Weights weights = time == 0 ? gate_weights : up_weights;
#pragma unroll
        for (int index = 0; index < ROWS; ++index) gates[index] = time == 0 ? 0.0f : ups[index], ups[index] = 0.0f;
        weights.template dots<ROWS>(ups, (i64)matrix * product.stride + out, product.columns, parts.x, parts.count);
    }
#pragma unroll
    for (int index = 0; index < ROWS; ++index) {
        float gate = finished(product, matrix, out, warp_sum(gates[index]));
        float value = finished(up, matrix, out, warp_sum(ups[index]));
        if (threadIdx.x % WARP == 0 && index < parts.count)
            product.out[parts.out[index] * product.outs + out] = gated(gate, value, kind);
    }
}

// One of the matrices by which the same rows are multiplied.
template <class Weights>
struct Segment {
    float* out;
    int outs;
    const float* bias;
    Weights weights;
};

// The rows of three matrices one after another: grid [all outs / warps, rows of x / ROWS].
template <int ROWS, class Weights>
__device__ void multiply_joined(
    Segment<Weights> segment, const Segment<Weights>& second, const Segment<Weights>& third, int rows, int columns) {
    int out = own_out();
    if (out >= segment.outs) {
        out -= segment.outs;
        bool is_second = out < second.outs;
        if (!is_second) out -= second.outs;
        segment = is_second ? second : third;
    }
    if (out >= segment.outs) return;
    Product product = {segment.out, rows, segment.outs, columns, 1, 1, segment.outs, nullptr, segment.bias, nullptr, 1.0f, 1.0f};
    multiply_parts<ROWS>(product, segment.weights, neighbours<ROWS>(product, blockIdx.y * ROWS, 0), 0, out);
}

#define PRODUCT_PARAMETERS                                                                                  \
    float *out, int rows, int outs, int columns, int parts, int x_parts, int stride, const int *choice,     \
        const float *bias, const float *part_scales, float scale, float bias_scale
#define PRODUCT                                                                                             \
    Product { out, rows, outs, columns, parts, x_parts, stride, choice, bias, part_scales, scale, bias_scale }
#define UP_PRODUCT                                                                                          \
    Product { out, rows, outs, columns, parts, x_parts, stride, choice, up_bias, up_scales, 1.0f, 1.0f }
#define JOINED_PARAMETERS                                                                                   \
    int rows, int columns, float *out, int outs, const float *bias, float *out2, int outs2,                 \
        const float *bias2, float *out3, int outs3, const float *bias3
#define SEGMENTS                                                                                            \
    Segment<Weights>{out, outs, bias, WEIGHTS}, Segment<Weights>{out2, outs2, bias2, SECOND},               \
        Segment<Weights>{out3, outs3, bias3, THIRD}
