// Nonlinearities, by the numbers that lowering/elementwise.py has for them.
#pragma once
#include "numbers.cuh"
#define SILU 0
#define GELU_TANH 1
#define SIGMOID 2
#define SOFTPLUS 3
#define NONE 4
#define CLAMPED_SWIGLU 5
#define RELU 6
#define RELU_SQUARED 7
#define EXP 8

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ __forceinline__ float activated(float x, int kind) {
    if (kind == SILU) return x * sigmoid(x);
    if (kind == GELU_TANH) return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    if (kind == SIGMOID) return sigmoid(x);
    if (kind == SOFTPLUS) return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
    if (kind == EXP) return expf(x);
    float positive = fmaxf(x, 0.0f);
    if (kind == RELU) return positive;
    if (kind == RELU_SQUARED) return positive * positive;
    return x;
}

__device__ __forceinline__ float gated(float x, float y, int kind) {
    if (kind != CLAMPED_SWIGLU) return activated(x, kind) * y;
    x = fminf(x, 7.0f);
    return x * sigmoid(1.702f * x) * (fmaxf(-7.0f, fminf(y, 7.0f)) + 1.0f);
}
