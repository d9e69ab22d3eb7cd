#include "reduction.cuh"
#define MOST_EXPERTS 1024
#define TAKEN -3.0e38f

// The first of the largest values of an array in shared memory; called by all lanes of a warp. Of values that are no
// numbers it is one of them all the same: what it leads to is read from memory.
__device__ __forceinline__ int best_of(const float* values, int count) {
    float best = -INFINITE;
    int where = count;
    for (int index = threadIdx.x; index < count; index += WARP)
        if (values[index] > best) best = values[index], where = index;
    for (int step = WARP / 2; step > 0; step /= 2) {
        float other = __shfl_xor_sync(ALL_LANES, best, step);
        int place = __shfl_xor_sync(ALL_LANES, where, step);
        if (other > best || (other == best && place < where)) best = other, where = place;
    }
    return min(where, count - 1);
}

// Leave ranks only to the experts of the groups with the largest sums of their two best.
__device__ void keep_groups(float* rank, int experts, int groups, int used) {
    __shared__ float sums[MOST_EXPERTS];
    int length = experts / groups;
    for (int group = threadIdx.x; group < groups; group += WARP) {
        float first = -INFINITE, second = -INFINITE;
        for (int index = group * length; index < (group + 1) * length; ++index) {
            if (rank[index] > first) second = first, first = rank[index];
            else if (rank[index] > second) second = rank[index];
        }
        sums[group] = length > 1 ? first + second : first;
    }
    __syncwarp();
    for (int time = 0; time < used; ++time) {
        int group = best_of(sums, groups);
        __syncwarp();
        if (threadIdx.x == 0) sums[group] = TAKEN;
        __syncwarp();
    }
    for (int index = threadIdx.x; index < experts; index += WARP)
        if (sums[index / length] != TAKEN) rank[index] = TAKEN;
    __syncwarp();
}

// The experts of each row, ascending, and their shares, [rows, used] each: a warp for each row, grid [rows].
extern "C" __global__ void choose(
    int* choice, float* shares, const float* logits, const float* bias, int experts, int used, int softmax,
    int normalise, float scale, int groups, int groups_used) {
    __shared__ float scores[MOST_EXPERTS];
    __shared__ float rank[MOST_EXPERTS];
    const float* own = logits + (i64)blockIdx.x * experts;
    float best = -INFINITE, total = 0.0f;
    for (int index = threadIdx.x; index < experts; index += WARP) best = fmaxf(best, own[index]);
    best = warp_max(best);
    for (int index = threadIdx.x; index < experts; index += WARP) {
        scores[index] = softmax ? expf(own[index] - best) : 1.0f / (1.0f + expf(-own[index]));
        total += scores[index];
    }
    total = softmax ? warp_sum(total) : 1.0f;
    for (int index = threadIdx.x; index < experts; index += WARP) {
        scores[index] /= total;
        rank[index] = scores[index] + (bias ? bias[index] : 0.0f);
    }
    __syncwarp();
    if (groups > 1) keep_groups(rank, experts, groups, groups_used);
    int* chosen = choice + (i64)blockIdx.x * used;
    float sum = 0.0f;
    for (int time = 0; time < used; ++time) {
        int expert = best_of(rank, experts);
        __syncwarp();
        if (threadIdx.x == 0) rank[expert] = -INFINITE;
        __syncwarp();
        sum += scores[expert];
        if (threadIdx.x == 0) {
            int place = time;
            for (; place > 0 && chosen[place - 1] > expert; --place) chosen[place] = chosen[place - 1];
            chosen[place] = expert;
        }
    }
    __syncwarp();
    for (int place = threadIdx.x; place < used; place += WARP)
        shares[(i64)blockIdx.x * used + place] = scores[chosen[place]] / (normalise ? sum : 1.0f) * scale;
}

// How many pairs of a row and a place chose each expert: a warp for each expert, grid [experts].
extern "C" __global__ void count_pairs(int* counts, const int* choice, int pairs) {
    float found = 0.0f;  // exact, of at most 2^24 pairs
    for (int pair = threadIdx.x; pair < pairs; pair += WARP) found += choice[pair] == (int)blockIdx.x ? 1.0f : 0.0f;
    found = warp_sum(found);
    if (threadIdx.x == 0) counts[blockIdx.x] = (int)found;
}

// The pairs by their experts, and tiles of at most `most` pairs of one expert each; a tile that there is not has no
// pairs. Each expert's pairs stay in their order: a warp for each expert, grid [experts].
extern "C" __global__ void order_pairs(
    int* order, int4* tiles, const int* counts, const int* choice, int pairs, int most, int most_tiles) {
    int expert = blockIdx.x, lane = threadIdx.x, own = counts[expert];
    float before = 0.0f, tiles_before = 0.0f;
    for (int other = lane; other < expert; other += WARP) {
        before += (float)counts[other];
        tiles_before += (float)((counts[other] + most - 1) / most);
    }
    int place = (int)warp_sum(before), tile = (int)warp_sum(tiles_before), own_tiles = (own + most - 1) / most;
    for (int index = lane; index < own_tiles; index += WARP)
        tiles[tile + index] = make_int4(expert, place + index * most, min(most, own - index * most), 0);
    if (expert == (int)gridDim.x - 1)
        for (int index = tile + own_tiles + lane; index < most_tiles; index += WARP) tiles[index] = make_int4(0, 0, 0, 0);
    for (int first = 0; first < pairs; first += WARP) {
        int pair = first + lane;
        bool is_own = pair < pairs && choice[pair] == expert;
        u32 mask = __ballot_sync(ALL_LANES, is_own);
        if (is_own) order[place + __popc(mask & ((1u << lane) - 1))] = pair;
        place += __popc(mask);
    }
}

// Each row of x once for each expert that it uses, times the expert's share: out is [rows, used, width].
extern "C" __global__ void weigh(float* out, const float* x, const float* shares, int width, int used, i64 count) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    i64 place = index / width;
    out[index] = x[place / used * width + index % width] * shares[place];
}

// out = sum over the used experts of share * x, x being [rows, used, width]; without shares they are 1.
extern "C" __global__ void mix(float* out, const float* x, const float* shares, int width, int used, i64 count) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    i64 row = index / width;
    float sum = 0.0f;
    for (int place = 0; place < used; ++place)
        sum += (shares ? shares[row * used + place] : 1.0f) * x[(row * used + place) * width + index % width];
    out[index] = sum;
}
