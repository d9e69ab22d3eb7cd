#include "activation.cuh"
#define INDEX ((i64)blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void activate(float* out, const float* x, const float* bias, int width, int kind, i64 count) {
    i64 index = INDEX;
    if (index < count) out[index] = activated(bias ? x[index] + bias[index % width] : x[index], kind);
}

// The gate is [rows, gate_width], a divisor of `width`.
extern "C" __global__ void gate(
    float* out, const float* gates, const float* up, int width, int gate_width, int kind, i64 count) {
    i64 index = INDEX;
    if (index >= count) return;
    out[index] = gated(gates[index / (width / gate_width)], up[index], kind);
}

extern "C" __global__ void soft_cap(float* x, float cap, i64 count) {
    i64 index = INDEX;
    if (index < count) x[index] = cap * tanhf(x[index] / cap);
}

extern "C" __global__ void add(float* out, const float* x, const float* y, float scale, i64 count) {
    i64 index = INDEX;
    if (index < count) out[index] = (x[index] + y[index]) * scale;
}

// x has `x_parts` parts of `x_length`, one for all or as many as out, which are `length` long.
extern "C" __global__ void copy_parts(
    float* out, const float* x, int parts, int length, int x_parts, int x_length, int width, int first,
    int out_first, i64 count) {
    i64 index = INDEX;
    if (index >= count) return;
    int column = (int)(index % width), part = (int)(index / width % parts);
    i64 row = index / width / parts;
    i64 source = (row * x_parts + (x_parts == 1 ? 0 : part)) * x_length + first + column;
    out[(row * parts + part) * length + out_first + column] = x[source];
}

extern "C" __global__ void take_rows(float* out, const float* x, const int* numbers, int width, i64 count) {
    i64 index = INDEX;
    if (index < count) out[index] = x[(i64)numbers[index / width] * width + index % width];
}
