// The kernels of product.cuh for one kind of matrix, which says by macros what its parameters are: X_PARAMETERS and
// PLANE_, SECOND_ and THIRD_PARAMETERS for up to three matrices, and WEIGHTS, SECOND and THIRD, which are made of them.
#pragma once
#include "product.cuh"

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
