// Attention over the paged cache, whose blocks hold KEPT (F32 or F16) values [positions, kv heads, length].
#include "reduction.cuh"
typedef KEPT Kept;
typedef Kept::Stored Stored;
#define BLOCK_TOKENS 64

// The tables of a group of layers, int [sequences, blocks]; shape = {sequences, blocks}, in device memory.
__device__ __forceinline__ i64 place_of(const int* tables, const int* shape, int group, int sequence, int position) {
    i64 block = tables[((i64)group * shape[0] + sequence) * shape[1] + position / BLOCK_TOKENS];
    return block * BLOCK_TOKENS + position % BLOCK_TOKENS;
}

// Store the keys and values of each row: grid [rows].
extern "C" __global__ void store(
    Stored* keys, Stored* values, const float* k, const float* v, const int* positions, const int* sequences,
    const int* tables, const int* shape, int group, int key_width, int value_width) {
    int row = blockIdx.x;
    i64 place = place_of(tables, shape, group, sequences[row], positions[row]);
    for (int column = threadIdx.x; column < key_width; column += blockDim.x)
        keys[place * key_width + column] = Kept::put(k[(i64)row * key_width + column]);
    for (int column = threadIdx.x; column < value_width; column += blockDim.x)
        values[place * value_width + column] = Kept::put(v[(i64)row * value_width + column]);
}

// Some query heads of one KV head of one row over a part of the positions: grid [rows, heads / per_block, splits].
// Partial results: sums [rows, heads, splits, value length], and (largest score, sum of weights) for each.
extern "C" __global__ void attend(
    float* sums, float2* states, const float* q, const Stored* keys, const Stored* values, const int* positions,
    const int* sequences, const int* tables, const int* shape, int group, int heads, int kv_heads, int key_length,
    int value_length, float scale, int window, int chunked, float cap, const float* slopes, int per_block, int tile) {
    extern __shared__ float memory[];
    float* queries = memory;                              // [per_block, key_length]
    float* kept = queries + per_block * key_length;       // [tile, the longer length]
    float* sum = kept + tile * max(key_length, value_length);  // [per_block, value_length]
    float* scores = sum + per_block * value_length;       // [per_block, tile]
    float* largest = scores + per_block * tile;           // [per_block], and two more like it
    float* total = largest + per_block;
    float* factor = total + per_block;
    int row = blockIdx.x, first_head = blockIdx.y * per_block, kv_head = first_head / (heads / kv_heads);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    int position = positions[row], sequence = sequences[row];
    int sliding = max(0, position + 1 - window), fixed = position / max(window, 1) * window;
    int lowest = window == 0 ? 0 : chunked ? fixed : sliding;
    int share = (position + 1 - lowest + gridDim.z - 1) / gridDim.z;
    int begin = lowest + blockIdx.z * share, end = min(begin + share, position + 1);
    for (int index = threadIdx.x; index < per_block * key_length; index += blockDim.x)
        queries[index] = q[((i64)row * heads + first_head) * key_length + index];
    for (int index = threadIdx.x; index < per_block * value_length; index += blockDim.x) sum[index] = 0.0f;
    for (int index = threadIdx.x; index < per_block; index += blockDim.x) {
        largest[index] = -INFINITE;
        total[index] = 0.0f;
    }
    for (int start = begin; start < end; start += tile) {
        int count = min(tile, end - start);
        __syncthreads();
        for (int index = threadIdx.x; index < count * key_length; index += blockDim.x) {
            i64 place = place_of(tables, shape, group, sequence, start + index / key_length);
            kept[index] = Kept::get(keys[(place * kv_heads + kv_head) * key_length + index % key_length]);
        }
        __syncthreads();
        for (int index = warp; index < per_block * count; index += warps) {
            int head = index / count, other = index % count;
            float score = 0.0f;
            for (int column = lane; column < key_length; column += WARP)
                score += queries[head * key_length + column] * kept[other * key_length + column];
            score = warp_sum(score) * scale;
            if (cap > 0.0f) score = cap * tanhf(score / cap);
            if (slopes) score -= slopes[first_head + head] * (float)(position - start - other);
            if (lane == 0) scores[head * tile + other] = score;
        }
        __syncthreads();
        for (int head = warp; head < per_block; head += warps) {
            float score = lane < count ? scores[head * tile + lane] : -INFINITE;
            float before = largest[head], best = fmaxf(before, warp_max(score));
            float weight = lane < count ? expf(score - best) : 0.0f;
            float added = warp_sum(weight);
            if (lane < count) scores[head * tile + lane] = weight;
            __syncwarp();
            if (lane == 0) {
                largest[head] = best;
                factor[head] = expf(before - best);
                total[head] = total[head] * factor[head] + added;
            }
        }
        for (int index = threadIdx.x; index < count * value_length; index += blockDim.x) {
            i64 place = place_of(tables, shape, group, sequence, start + index / value_length);
            kept[index] = Kept::get(values[(place * kv_heads + kv_head) * value_length + index % value_length]);
        }
        __syncthreads();
        for (int index = threadIdx.x; index < per_block * value_length; index += blockDim.x) {
            int head = index / value_length, column = index % value_length;
            float value = sum[index] * factor[head];
            for (int other = 0; other < count; ++other)
                value += scores[head * tile + other] * kept[other * value_length + column];
            sum[index] = value;
        }
    }
    __syncthreads();
    for (int index = threadIdx.x; index < per_block * value_length; index += blockDim.x) {
        i64 place = ((i64)row * heads + first_head + index / value_length) * gridDim.z + blockIdx.z;
        sums[place * value_length + index % value_length] = sum[index];
    }
    for (int head = threadIdx.x; head < per_block; head += blockDim.x)
        states[((i64)row * heads + first_head + head) * gridDim.z + blockIdx.z] = make_float2(largest[head], total[head]);
}

// Join the parts of each head: grid [heads, rows].
extern "C" __global__ void join(
    float* out, const float* sums, const float2* states, const float* sinks, int value_length, int splits) {
    i64 head = (i64)blockIdx.y * gridDim.x + blockIdx.x;
    float best = sinks ? sinks[blockIdx.x] : -INFINITE;
    for (int split = 0; split < splits; ++split) best = fmaxf(best, states[head * splits + split].x);
    float total = sinks ? expf(sinks[blockIdx.x] - best) : 0.0f;
    for (int split = 0; split < splits; ++split) {
        float2 state = states[head * splits + split];
        total += state.y * expf(state.x - best);
    }
    for (int column = threadIdx.x; column < value_length; column += blockDim.x) {
        float value = 0.0f;
        for (int split = 0; split < splits; ++split) {
            i64 place = head * splits + split;
            value += sums[place * value_length + column] * expf(states[place].x - best);
        }
        out[head * value_length + column] = value / total;
    }
}
