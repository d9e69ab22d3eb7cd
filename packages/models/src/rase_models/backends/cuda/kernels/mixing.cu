// Ops that mix buffers value by value, or by weights that a run has computed.
#include "reduction.cuh"
#define INDEX ((i64)blockIdx.x * blockDim.x + threadIdx.x)

// The weight, if any, has a value for each `length` of a row.
extern "C" __global__ void scale(
    float* out, const float* x, const float* weight, int width, int length, float factor, i64 count) {
    i64 index = INDEX;
    if (index >= count) return;
    float value = weight ? x[index] * weight[(int)(index % width) / length] : x[index];
    out[index] = value * factor;
}

// out has `parts` parts as wide as x and y; weight and gate, if any, are as wide as out.
extern "C" __global__ void blend(
    float* out, const float* x, const float* y, const float* weight, const float* gate, int width, int parts,
    i64 count) {
    i64 index = INDEX;
    if (index >= count) return;
    i64 place = index % ((i64)width * parts), source = index / ((i64)width * parts) * width + index % width;
    float share = (weight ? weight[place] : 0.0f) + (gate ? gate[index] : 0.0f);
    out[index] = x[source] + (y[source] - x[source]) * share;
}

// out and base have `outs` parts of `length`, x has `ins`; the weights of a row are [outs, ins].
extern "C" __global__ void mix_parts(
    float* out, const float* x, const float* weights, const float* base, int length, int outs, int ins, float offset,
    i64 count) {
    i64 index = INDEX;
    if (index >= count) return;
    i64 row = index / ((i64)length * outs);
    int part = (int)(index / length % outs), column = (int)(index % length);
    float sum = base[index];
    for (int other = 0; other < ins; ++other)
        sum += (weights[(row * outs + part) * ins + other] + offset) * x[(row * ins + other) * length + column];
    out[index] = sum;
}

// A block for each part: grid [heads, rows].
extern "C" __global__ void rescale(float* out, const float* x, const float* like, int width, float eps) {
    __shared__ float scratch[WARP];
    i64 first = ((i64)blockIdx.y * gridDim.x + blockIdx.x) * width;
    float found = 0.0f, wanted = 0.0f;
    for (int place = threadIdx.x; place < width; place += blockDim.x) {
        float other = like[(i64)blockIdx.y * width + place];
        found += x[first + place] * x[first + place];
        wanted += other * other;
    }
    found = block_sum(found, scratch);
    float factor = sqrtf(block_sum(wanted, scratch) / (found + eps));
    for (int place = threadIdx.x; place < width; place += blockDim.x) out[first + place] = x[first + place] * factor;
}

// A block for each row: grid [rows].
extern "C" __global__ void sparsify(float* out, const float* x, int width, float deviations) {
    __shared__ float scratch[WARP];
    i64 first = (i64)blockIdx.x * width;
    float sum = 0.0f, squares = 0.0f;
    for (int place = threadIdx.x; place < width; place += blockDim.x) sum += x[first + place];
    float mean = block_sum(sum, scratch) / (float)width;
    for (int place = threadIdx.x; place < width; place += blockDim.x) {
        float distance = x[first + place] - mean;
        squares += distance * distance;
    }
    float cut = mean + deviations * sqrtf(block_sum(squares, scratch) / (float)(width - 1));
    for (int place = threadIdx.x; place < width; place += blockDim.x)
        out[first + place] = fmaxf(x[first + place] - cut, 0.0f);
}

extern "C" __global__ void clamp(float* out, const float* x, float limit, i64 count) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) out[index] = fmaxf(-limit, fminf(x[index], limit));
}

extern "C" __global__ void xielu(float* out, const float* x, float above, float below, float slope, i64 count) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    float value = x[index], high = fmaxf(value, 0.0f), low = fminf(value, 0.0f);
    out[index] = above * high * high + below * (expm1f(low) - low) + slope * value;
}

// A block for each head: grid [heads, rows].
extern "C" __global__ void add_dots(
    float* out, const float* x, const float* q, const float* k, const float* v, const float* weight, int width) {
    __shared__ float scratch[WARP];
    i64 first = ((i64)blockIdx.y * gridDim.x + blockIdx.x) * width;
    const float* own = weight + (i64)blockIdx.x * width;
    float sum = 0.0f;
    for (int place = threadIdx.x; place < width; place += blockDim.x)
        sum += q[first + place] * k[first + place] * own[place];
    float dot = block_sum(sum, scratch);
    for (int place = threadIdx.x; place < width; place += blockDim.x)
        out[first + place] = x[first + place] + dot * v[first + place];
}
