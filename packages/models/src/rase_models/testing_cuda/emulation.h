// CUDA C on the CPU, for tests: each thread of a block is a fiber, blocks run one after another.
//
// Barriers, shuffles and votes are real meetings. A warp runs as far as it can before the next one begins, lanes and
// warps in an order that `seed` chooses: what needs a barrier that is not there differs from order to order. Loads and
// stores that are not aligned, lanes that miss a meeting and a barrier that not all reach end the launch with a fault.
#pragma once
#include <setjmp.h>
#include <ucontext.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>
#define RASE_EMULATED 1
#define __global__
#define __device__
#define __constant__ static const
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__

namespace emulation {
struct Index { unsigned x, y, z; };
enum class State { ready, in_warp_meeting, at_barrier, done };

struct Fiber {
    ucontext_t context;
    jmp_buf place;
    bool begun;
    State state;
    uint32_t mask, meetings;
    const void* site;
    Index index;
};

constexpr int warp_size = 32;
constexpr size_t stack_size = 64 * 1024;
constexpr unsigned char unset = 0xff;  // makes floats that nobody has written NaN
constexpr int guard = 1024;

// An array in shared memory between two guards; `arrays` has all of a library.
static std::vector<std::pair<unsigned char*, size_t>> arrays;
template <class T, int size> struct Shared {
    unsigned char before[guard];
    T values[size];
    unsigned char after[guard];
    Shared() {
        memset((void*)this, unset, sizeof *this);
        arrays.emplace_back(before, sizeof values);
    }
};

static std::vector<Fiber> fibers;
static std::vector<char> stacks;
static std::vector<uint64_t> exchanged;  // two places for each thread, in turn
static std::vector<unsigned char> shared_memory;
static jmp_buf scheduler;
static Index block, block_size, grid_size;
static int current, count;
static void (*body)(void**);
static void** parameters;
static const char* fault;

static void leave() { _longjmp(scheduler, 1); }
static void fail(const char* what) { fault = what; leave(); }
static void wait() { if (!_setjmp(fibers[current].place)) leave(); }
static void enter() { body(parameters); fibers[current].state = State::done; leave(); }

static void resume(int thread) {
    current = thread;
    if (_setjmp(scheduler)) return;
    Fiber& fiber = fibers[thread];
    if (fiber.begun) _longjmp(fiber.place, 1);
    fiber.begun = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks.data() + thread * stack_size;
    fiber.context.uc_stack.ss_size = stack_size;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enter, 0);
    setcontext(&fiber.context);
}

// Let a warp's lanes go on whose meeting is complete; whether there were any.
static bool meet(int warp) {
    int first = warp * warp_size, lanes = std::min(warp_size, count - first);
    bool met = false;
    for (int lane = 0; lane < lanes; ++lane) {
        Fiber& fiber = fibers[first + lane];
        if (fiber.state != State::in_warp_meeting) continue;
        bool all = true;
        for (int other = 0; other < warp_size; ++other) {
            if (!(fiber.mask >> other & 1)) continue;
            if (other >= lanes || fibers[first + other].state != State::in_warp_meeting) { all = false; break; }
            const Fiber& there = fibers[first + other];
            if (there.mask != fiber.mask || there.site != fiber.site) {
                fault = "lanes of a warp meet at different places";
                return false;
            }
        }
        if (!all) continue;
        for (int other = 0; other < warp_size; ++other)
            if (fiber.mask >> other & 1) fibers[first + other].state = State::ready;
        met = true;
    }
    return met;
}

static void run_block(const std::vector<int>& warps, const std::vector<int>& lanes) {
    for (int thread = 0; thread < count; ++thread) {
        Fiber& fiber = fibers[thread];
        fiber.begun = false, fiber.state = State::ready, fiber.meetings = 0;
        fiber.index = {(unsigned)thread, 0, 0};
    }
    for (;;) {
        for (int warp : warps) do {
            for (int lane : lanes) {
                int thread = warp * warp_size + lane;
                if (thread < count && fibers[thread].state == State::ready) resume(thread);
                if (fault) return;
            }
        } while (meet(warp));
        if (fault) return;
        int done = 0, waiting = 0;
        for (int thread = 0; thread < count; ++thread) {
            done += fibers[thread].state == State::done;
            waiting += fibers[thread].state == State::at_barrier;
        }
        if (done == count) return;
        if (waiting != count) { fault = waiting + done == count ? "a barrier is not reached by all threads" : "a meeting of a warp is not reached by all its lanes"; return; }
        for (int thread = 0; thread < count; ++thread) fibers[thread].state = State::ready;
    }
}

static std::vector<int> order(int size, unsigned seed) {
    std::vector<int> places(size);
    std::iota(places.begin(), places.end(), 0);
    if (seed == 1) std::reverse(places.begin(), places.end());
    for (int last = size - 1; seed > 1 && last > 0; --last) {
        seed = seed * 1664525u + 1013904223u;
        std::swap(places[last], places[(seed >> 8) % (last + 1)]);
    }
    return places;
}

// Make shared memory what it is before a block: nobody has written it.
static void clear_shared(size_t dynamic) {
    shared_memory.assign(dynamic + 2 * guard + 16, unset);
    for (auto [place, size] : arrays) memset(place, unset, size + 2 * guard);
}

static void* dynamic_memory() { return shared_memory.data() + guard + (16 - (uintptr_t)shared_memory.data() % 16) % 16; }

static bool is_unset(const unsigned char* first, size_t size) {
    return std::all_of(first, first + size, [](unsigned char byte) { return byte == unset; });
}

static bool are_guards_unset(const unsigned char* first, size_t size) {
    return is_unset(first, guard) && is_unset(first + guard + size, guard);
}

static bool is_shared_intact(size_t dynamic) {
    bool is_intact = are_guards_unset((unsigned char*)dynamic_memory() - guard, dynamic);
    for (auto [place, size] : arrays) is_intact = is_intact && are_guards_unset(place, size);
    return is_intact;
}

static const char* launch(void (*kernel)(void**), void** arguments, const unsigned* shape, size_t shared, unsigned seed) {
    body = kernel, parameters = arguments, fault = nullptr;
    grid_size = {shape[0], shape[1], shape[2]}, block_size = {shape[3], 1, 1};
    count = (int)shape[3];
    fibers.resize(count), exchanged.resize(2 * count);
    if (stacks.size() < count * stack_size) stacks.resize(count * stack_size);
    auto warps = order((count + warp_size - 1) / warp_size, seed), lanes = order(warp_size, seed);
    auto blocks = order((int)(shape[0] * shape[1] * shape[2]), seed);
    for (int number : blocks) {
        block = {number % shape[0], number / shape[0] % shape[1], number / shape[0] / shape[1]};
        clear_shared(shared);
        run_block(warps, lanes);
        if (!fault && !is_shared_intact(shared)) fault = "a write outside of an array in shared memory";
        if (fault) return fault;
    }
    return nullptr;
}

static int lane() { return current % warp_size; }

// Give a value to the lanes of `mask`, and see those of all.
static const uint64_t* gathered(uint32_t mask, uint64_t value, const void* site) {
    Fiber& fiber = fibers[current];
    if (!(mask >> lane() & 1)) fail("a lane calls with a mask that it is not in");
    int turn = fiber.meetings++ % 2, first = current - lane();
    exchanged[turn * count + current] = value;
    fiber.mask = mask, fiber.site = site, fiber.state = State::in_warp_meeting;
    wait();
    return &exchanged[turn * count + first];
}

static uint64_t exchange(uint32_t mask, uint64_t value, int from, const void* site) {
    return gathered(mask, value, site)[from];
}

static uint32_t ballot(uint32_t mask, bool vote, const void* site) {
    const uint64_t* votes = gathered(mask, vote, site);
    uint32_t found = 0;
    for (int other = 0; other < warp_size; ++other)
        if (mask >> other & 1) found |= (uint32_t)votes[other] << other;
    return found;
}

template <class T> static T shuffled(uint32_t mask, T value, int from, const void* site) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = exchange(mask, bits, from, site);
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <class... A, size_t... I> static void call(void (*kernel)(A...), void** given, std::index_sequence<I...>) {
    kernel(*(std::remove_reference_t<A>*)given[I]...);
}
template <class... A> static void call(void (*kernel)(A...), void** given) {
    call(kernel, given, std::index_sequence_for<A...>());
}
template <class... A> static int sizes(void (*)(A...), int* found) {
    int place = 0;
    ((found[place++] = (int)sizeof(A)), ...);
    return place;
}
}  // namespace emulation

extern "C" void __ubsan_handle_type_mismatch_v1(void*, void*) { emulation::fail("an address that is not aligned"); }
extern "C" void __ubsan_handle_type_mismatch_v1_abort(void*, void*) { emulation::fail("an address that is not aligned"); }

#define KERNEL(name)                                                                                             \
    extern "C" const char* launch_##name(void** given, const unsigned* shape, size_t shared, unsigned seed) {    \
        return emulation::launch([](void** values) { emulation::call(name, values); }, given, shape, shared, seed); \
    }                                                                                                            \
    extern "C" int sizes_##name(int* found) { return emulation::sizes(name, found); }

#define threadIdx (emulation::fibers[emulation::current].index)
#define blockIdx (emulation::block)
#define blockDim (emulation::block_size)
#define gridDim (emulation::grid_size)
#define MEETING __attribute__((noinline)) static
#define SITE __builtin_return_address(0)

static inline void __syncthreads() {
    emulation::fibers[emulation::current].state = emulation::State::at_barrier;
    emulation::wait();
}
MEETING void __syncwarp(unsigned mask = ~0u) { emulation::exchange(mask, 0, emulation::lane(), SITE); }
template <class T> MEETING T __shfl_xor_sync(unsigned mask, T value, int step) {
    return emulation::shuffled(mask, value, emulation::lane() ^ step, SITE);
}
template <class T> MEETING T __shfl_sync(unsigned mask, T value, int from) {
    return emulation::shuffled(mask, value, from, SITE);
}
MEETING unsigned __ballot_sync(unsigned mask, bool vote) { return emulation::ballot(mask, vote, SITE); }
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline int __dp4a(int a, int b, int sum) {
    for (int place = 0; place < 4; ++place) sum += (int)(int8_t)(a >> 8 * place) * (int)(int8_t)(b >> 8 * place);
    return sum;
}
static inline int __float2int_rn(float x) { return (int)nearbyintf(x); }
static inline float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline float half_to_float(uint16_t bits) {
    _Float16 value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}
static inline uint16_t float_to_half(float value) {
    _Float16 half = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}
using std::max;
using std::min;
