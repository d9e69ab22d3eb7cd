// Ops that carry a state from row to row. Sequence s has `counts[s]` rows from `firsts[s]` on, and slot `slots[s]`.
#include "reduction.cuh"
#define MOST_TAPS 16

// A thread for each channel: grid [width / threads, sequences]. The state is the last taps - 1 rows of x.
extern "C" __global__ void short_conv(
    float* out, const float* x, const float* weight, const float* bias, float* states, const int* positions,
    const int* firsts, const int* counts, const int* slots, int width, int taps) {
    int channel = blockIdx.x * blockDim.x + threadIdx.x, sequence = blockIdx.y, first = firsts[sequence];
    if (channel >= width || counts[sequence] == 0) return;
    float* state = states + (i64)slots[sequence] * (taps - 1) * width + channel;
    bool begins = positions[first] == 0;
    float seen[MOST_TAPS];
    for (int tap = 0; tap < taps - 1; ++tap) seen[tap] = begins ? 0.0f : state[(i64)tap * width];
    for (int row = first; row < first + counts[sequence]; ++row) {
        seen[taps - 1] = x[(i64)row * width + channel];
        float sum = 0.0f;
        for (int tap = 0; tap < taps; ++tap) sum += weight[channel * taps + tap] * seen[tap];
        out[(i64)row * width + channel] = bias ? sum + bias[channel] : sum;
        for (int tap = 0; tap < taps - 1; ++tap) seen[tap] = seen[tap + 1];
    }
    for (int tap = 0; tap < taps - 1; ++tap) state[(i64)tap * width] = seen[tap];
}

// A warp for each element of a head's part of x: grid [length / warps, heads, sequences]; h is [length, depth].
extern "C" __global__ void state_scan(
    float* out, const float* x, const float* b, const float* c, const float* step, const float* decay,
    const float* skip, float* states, const int* positions, const int* firsts, const int* counts, const int* slots,
    int heads, int groups, int length, int depth) {
    int element = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int head = blockIdx.y, sequence = blockIdx.z, group = head / (heads / groups), first = firsts[sequence];
    if (element >= length || counts[sequence] == 0) return;
    float* h = states + (((i64)slots[sequence] * heads + head) * length + element) * depth;
    if (positions[first] == 0)
        for (int place = lane; place < depth; place += WARP) h[place] = 0.0f;
    for (int row = first; row < first + counts[sequence]; ++row) {
        i64 source = ((i64)row * heads + head) * length + element;
        float size = step[(i64)row * heads + head], kept = expf(size * decay[head]), added = size * x[source], sum = 0.0f;
        for (int place = lane; place < depth; place += WARP) {
            i64 other = ((i64)row * groups + group) * depth + place;
            h[place] = kept * h[place] + added * b[other];
            sum += h[place] * c[other];
        }
        sum = warp_sum(sum);
        if (lane == 0) out[source] = sum + skip[head] * x[source];
    }
}

// A thread for each value: grid [heads, sequences]; h is [keys, values].
extern "C" __global__ void gated_delta(
    float* out, const float* q, const float* k, const float* v, const float* step, const float* beta,
    const float* decay, float* states, const int* positions, const int* firsts, const int* counts, const int* slots,
    int heads, int key_heads, int keys, int values, float eps) {
    extern __shared__ float memory[];
    __shared__ float scratch[WARP];
    float *query = memory, *key = memory + keys;
    int head = blockIdx.x, sequence = blockIdx.y, first = firsts[sequence], own = head % key_heads;
    float* h = states + ((i64)slots[sequence] * heads + head) * keys * values;
    if (counts[sequence] == 0) return;
    if (positions[first] == 0)
        for (int place = threadIdx.x; place < keys * values; place += blockDim.x) h[place] = 0.0f;
    for (int row = first; row < first + counts[sequence]; ++row) {
        i64 source = ((i64)row * key_heads + own) * keys, gates = (i64)row * heads + head;
        float q_squares = 0.0f, k_squares = 0.0f;
        for (int place = threadIdx.x; place < keys; place += blockDim.x) {
            query[place] = q[source + place];
            key[place] = k[source + place];
            q_squares += query[place] * query[place];
            k_squares += key[place] * key[place];
        }
        float q_factor = 1.0f / (sqrtf(block_sum(q_squares, scratch) + eps) * sqrtf((float)keys));
        float k_factor = 1.0f / sqrtf(block_sum(k_squares, scratch) + eps);
        float kept = expf(step[gates] * decay[head]);
        for (int value = threadIdx.x; value < values; value += blockDim.x) {
            float known = 0.0f, sum = 0.0f;
            for (int place = 0; place < keys; ++place) {
                h[(i64)place * values + value] *= kept;
                known += h[(i64)place * values + value] * key[place] * k_factor;
            }
            float change = beta[gates] * (v[gates * values + value] - known);
            for (int place = 0; place < keys; ++place) {
                h[(i64)place * values + value] += key[place] * k_factor * change;
                sum += h[(i64)place * values + value] * query[place] * q_factor;
            }
            out[gates * values + value] = sum;
        }
        __syncthreads();
    }
}
