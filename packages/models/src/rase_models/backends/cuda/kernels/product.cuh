// What products of rows with matrices have in common: which matrix of a stack, and what is done with a sum.
#pragma once
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

__device__ __forceinline__ int matrix_of(const Product& product, int row, int part) {
    return product.choice ? product.choice[row * product.parts + part] : part;
}

__device__ __forceinline__ i64 x_part(const Product& product, int row, int part) {
    return (i64)row * product.x_parts + (product.x_parts == 1 ? 0 : part);
}

__device__ __forceinline__ void keep(const Product& product, int row, int part, int matrix, int out, float sum) {
    sum *= product.scale;
    if (product.part_scales) sum *= product.part_scales[matrix];
    if (product.bias) sum += product.bias[(i64)matrix * product.outs + out] * product.bias_scale;
    product.out[((i64)row * product.parts + part) * product.outs + out] = sum;
}

#define PRODUCT_PARAMETERS                                                                                  \
    float *out, int rows, int outs, int columns, int parts, int x_parts, int stride, const int *choice,     \
        const float *bias, const float *part_scales, float scale, float bias_scale
#define PRODUCT                                                                                             \
    Product { out, rows, outs, columns, parts, x_parts, stride, choice, bias, part_scales, scale, bias_scale }
