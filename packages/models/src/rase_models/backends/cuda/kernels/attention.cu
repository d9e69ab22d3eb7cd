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

struct Context {
    const Stored* keys;
    const Stored* values;
    const int* positions;
    const int* tables;
    const int* shape;
    int group, heads, kv_heads, key_length, value_length;
    float scale;
    int window, chunked;
    float cap;
    const float* slopes;
};

// The parts of a block's shared memory, for `queries` in groups that share what a thread reads of keys and values.
struct Tile {
    float* query;    // [queries, key_length]
    float* sum;      // [queries, value_length]
    float* scores;   // [queries, tile]
    float* largest;  // [queries], and two more like it
    float* total;
    float* factor;
    float* kept;     // [tile, stride], keys and then values
    int queries, tile, stride;
};

__device__ __forceinline__ int lowest_of(const Context& context, int position) {
    if (context.window == 0) return 0;
    return context.chunked ? position / context.window * context.window : max(0, position + 1 - context.window);
}

// Load keys or values of `count` positions from `start` on: a warp for each.
__device__ void load(
    const Context& context, const Tile& tile, const Stored* cache, int length, int sequence, int kv_head, int start,
    int count) {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (int other = warp; other < count; other += blockDim.x / WARP) {
        i64 place = place_of(context.tables, context.shape, context.group, sequence, start + other);
        const Stored* source = cache + (place * context.kv_heads + kv_head) * length;
        for (int column = lane; column < length; column += WARP)
            tile.kept[other * tile.stride + column] = Kept::get(source[column]);
    }
}

// A thread for each position and group of queries, so that a key is read once for all of the group.
template <int GROUPED>
__device__ void score(const Context& context, const Tile& tile, int count) {
    int length = context.key_length;
    for (int index = threadIdx.x; index < tile.queries / GROUPED * tile.tile; index += blockDim.x) {
        int other = index % tile.tile, first = index / tile.tile * GROUPED;
        if (other >= count) continue;
        const float* key = tile.kept + other * tile.stride;
        const float* query = tile.query + first * length;
        float sums[GROUPED] = {};
        for (int column = 0; column < length; ++column)
            for (int place = 0; place < GROUPED; ++place) sums[place] += query[place * length + column] * key[column];
        for (int place = 0; place < GROUPED; ++place) tile.scores[(first + place) * tile.tile + other] = sums[place];
    }
}

// A warp for each query: scores become weights, and what was summed so far is to be multiplied by `factor`.
__device__ void weigh(
    const Context& context, const Tile& tile, int first_row, int first_head, int per_block, int queries, int start,
    int count) {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (int query = warp; query < queries; query += blockDim.x / WARP) {
        int position = context.positions[first_row + query / per_block], other = start + lane;
        bool is_seen = lane < count && other <= position && other >= lowest_of(context, position);
        float value = -INFINITE;
        if (is_seen) {
            value = tile.scores[query * tile.tile + lane] * context.scale;
            if (context.cap > 0.0f) value = context.cap * tanhf(value / context.cap);
            if (context.slopes) value -= context.slopes[first_head + query % per_block] * (float)(position - other);
        }
        float before = tile.largest[query], best = fmaxf(before, warp_max(value));
        float weight = is_seen ? expf(value - best) : 0.0f;
        float added = warp_sum(weight);
        if (lane < tile.tile) tile.scores[query * tile.tile + lane] = weight;
        __syncwarp();
        if (lane == 0) {
            tile.largest[query] = best;
            tile.factor[query] = expf(before - best);
            tile.total[query] = tile.total[query] * tile.factor[query] + added;
        }
    }
}

// A thread for each column and group of queries.
template <int GROUPED>
__device__ void add_values(const Context& context, const Tile& tile, int count) {
    int length = context.value_length;
    for (int index = threadIdx.x; index < tile.queries / GROUPED * length; index += blockDim.x) {
        int column = index % length, first = index / length * GROUPED;
        float sums[GROUPED];
        for (int place = 0; place < GROUPED; ++place)
            sums[place] = tile.sum[(first + place) * length + column] * tile.factor[first + place];
        for (int other = 0; other < count; ++other) {
            float value = tile.kept[other * tile.stride + column];
            for (int place = 0; place < GROUPED; ++place)
                sums[place] += tile.scores[(first + place) * tile.tile + other] * value;
        }
        for (int place = 0; place < GROUPED; ++place) tile.sum[(first + place) * length + column] = sums[place];
    }
}

// Query heads of one KV head of some rows of one sequence over this block's part of the positions.
template <int GROUPED>
__device__ void attend_rows(
    const Context& context, const Tile& tile, const float* q, float* sums, float2* states, int sequence,
    int first_row, int rows, int first_head, int per_block) {
    int queries = rows * per_block, kv_head = first_head / (context.heads / context.kv_heads);
    int keys = context.key_length, values = context.value_length;
    for (int index = threadIdx.x; index < tile.queries * keys; index += blockDim.x) {
        int query = index / keys;
        i64 head = (i64)(first_row + query / per_block) * context.heads + first_head + query % per_block;
        tile.query[index] = query < queries ? q[head * keys + index % keys] : 0.0f;
    }
    for (int index = threadIdx.x; index < tile.queries * values; index += blockDim.x) tile.sum[index] = 0.0f;
    for (int query = threadIdx.x; query < tile.queries; query += blockDim.x)
        tile.largest[query] = -INFINITE, tile.total[query] = 0.0f, tile.factor[query] = 0.0f;
    int lowest = lowest_of(context, context.positions[first_row]), after = context.positions[first_row + rows - 1] + 1;
    int share = (after - lowest + gridDim.z - 1) / gridDim.z;
    int begin = lowest + blockIdx.z * share, end = min(begin + share, after);
    for (int start = begin; start < end; start += tile.tile) {
        int count = min(tile.tile, end - start);
        __syncthreads();
        load(context, tile, context.keys, keys, sequence, kv_head, start, count);
        __syncthreads();
        score<GROUPED>(context, tile, count);
        __syncthreads();
        weigh(context, tile, first_row, first_head, per_block, queries, start, count);
        load(context, tile, context.values, values, sequence, kv_head, start, count);
        __syncthreads();
        add_values<GROUPED>(context, tile, count);
    }
    __syncthreads();
    for (int index = threadIdx.x; index < queries * values; index += blockDim.x) {
        int query = index / values;
        i64 head = (i64)(first_row + query / per_block) * context.heads + first_head + query % per_block;
        sums[(head * gridDim.z + blockIdx.z) * values + index % values] = tile.sum[index];
    }
    for (int query = threadIdx.x; query < queries; query += blockDim.x) {
        i64 head = (i64)(first_row + query / per_block) * context.heads + first_head + query % per_block;
        states[head * gridDim.z + blockIdx.z] = make_float2(tile.largest[query], tile.total[query]);
    }
    __syncthreads();
}

// Tiles of rows, with some query heads of one KV head: grid [rows / per_tile, heads / per_block, splits].
// Partial results: sums [rows, heads, splits, value length], and (largest score, sum of weights) for each.
template <int GROUPED>
__device__ void attend(
    const Context& context, float* sums, float2* states, const float* q, const int* sequences, int per_block,
    int tile, int rows, int per_tile) {
    extern __shared__ float memory[];
    int queries = (per_tile * per_block + GROUPED - 1) / GROUPED * GROUPED;
    float* sum = memory + queries * context.key_length;
    float* scores = sum + queries * context.value_length;
    float* largest = scores + queries * tile;
    Tile shared = {memory, sum, scores, largest, largest + queries, largest + 2 * queries, largest + 3 * queries,
                   queries, tile, max(context.key_length, context.value_length) | 1};
    int last = min((int)(blockIdx.x + 1) * per_tile, rows);
    for (int first = blockIdx.x * per_tile; first < last;) {
        int end = first + 1;
        while (end < last && sequences[end] == sequences[first]) ++end;
        attend_rows<GROUPED>(
            context, shared, q, sums, states, sequences[first], first, end - first, blockIdx.y * per_block, per_block);
        first = end;
    }
}

#define ATTEND_PARAMETERS                                                                                       \
    float *sums, float2 *states, const float *q, const Stored *keys, const Stored *values, const int *positions, \
        const int *sequences, const int *tables, const int *shape, int group, int heads, int kv_heads,          \
        int key_length, int value_length, float scale, int window, int chunked, float cap, const float *slopes, \
        int per_block, int tile, int rows, int per_tile
#define CONTEXT                                                                                                  \
    Context {                                                                                                    \
        keys, values, positions, tables, shape, group, heads, kv_heads, key_length, value_length, scale, window, \
            chunked, cap, slopes                                                                                 \
    }

extern "C" __global__ void attend_one(ATTEND_PARAMETERS) {
    attend<1>(CONTEXT, sums, states, q, sequences, per_block, tile, rows, per_tile);
}

extern "C" __global__ void attend_four(ATTEND_PARAMETERS) {
    attend<4>(CONTEXT, sums, states, q, sequences, per_block, tile, rows, per_tile);
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
