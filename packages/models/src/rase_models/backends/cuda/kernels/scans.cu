// Ops that shift rows, scan channels, or keep a matrix of keys and values. Sequence s has `counts[s]` rows from
// `firsts[s]` on, and slot `slots[s]`.
#include "reduction.cuh"

// A thread for each channel: grid [width / threads, sequences]. The state is the last row of x.
extern "C" __global__ void shift(
    float* out, const float* x, float* states, const int* positions, const int* firsts, const int* counts,
    const int* slots, int width) {
    int channel = blockIdx.x * blockDim.x + threadIdx.x, sequence = blockIdx.y, first = firsts[sequence];
    if (channel >= width || counts[sequence] == 0) return;
    float* state = states + (i64)slots[sequence] * width + channel;
    float before = positions[first] == 0 ? 0.0f : *state;
    for (int row = first; row < first + counts[sequence]; ++row) {
        float value = x[(i64)row * width + channel];
        out[(i64)row * width + channel] = before;
        before = value;
    }
    *state = before;
}

// A thread for each channel: grid [channels / threads, sequences]; h is [size, channels].
extern "C" __global__ void selective_scan(
    float* out, const float* x, const float* b, const float* c, const float* step, const float* decay,
    const float* skip, float* states, const int* positions, const int* firsts, const int* counts, const int* slots,
    int channels, int size) {
    int channel = blockIdx.x * blockDim.x + threadIdx.x, sequence = blockIdx.y, first = firsts[sequence];
    if (channel >= channels || counts[sequence] == 0) return;
    float* h = states + (i64)slots[sequence] * channels * size + channel;
    if (positions[first] == 0)
        for (int place = 0; place < size; ++place) h[(i64)place * channels] = 0.0f;
    for (int row = first; row < first + counts[sequence]; ++row) {
        i64 source = (i64)row * channels + channel;
        float added = step[source] * x[source], sum = 0.0f;
        for (int place = 0; place < size; ++place) {
            float kept = expf(step[source] * decay[(i64)channel * size + place]);
            float value = kept * h[(i64)place * channels] + added * b[(i64)row * size + place];
            h[(i64)place * channels] = value;
            sum += value * c[(i64)row * size + place];
        }
        out[source] = sum + skip[channel] * x[source];
    }
}

// A thread for each value: grid [heads, sequences]; h is [keys, values]. Without a and b nothing is corrected.
extern "C" __global__ void keyed_scan(
    float* out, const float* q, const float* k, const float* v, const float* keep, const float* a, const float* b,
    float* states, const int* positions, const int* firsts, const int* counts, const int* slots, int heads, int keys,
    int values, float scale, int reads_before) {
    int head = blockIdx.x, sequence = blockIdx.y, first = firsts[sequence];
    float* whole = states + ((i64)slots[sequence] * heads + head) * keys * values;
    if (counts[sequence] == 0) return;
    for (int value = threadIdx.x; value < values; value += blockDim.x) {
        float* h = whole + value;
        if (positions[first] == 0)
            for (int key = 0; key < keys; ++key) h[(i64)key * values] = 0.0f;
        for (int row = first; row < first + counts[sequence]; ++row) {
            i64 source = ((i64)row * heads + head) * keys, target = ((i64)row * heads + head) * values + value;
            float known = 0.0f, sum = 0.0f;
            if (a)
                for (int key = 0; key < keys; ++key) known += a[source + key] * h[(i64)key * values];
            for (int key = 0; key < keys; ++key) {
                float before = h[(i64)key * values];
                float after = keep[source + key] * before + k[source + key] * v[target];
                if (a) after += b[source + key] * known;
                h[(i64)key * values] = after;
                sum += q[source + key] * (reads_before ? before : after);
            }
            out[target] = sum * scale;
        }
    }
}
