// Metal Shading Language in terms of the emulation of CUDA C: threadgroups are its blocks, SIMD groups its warps.
//
// What it has is what the kernels use. A launch has the shape of a grid in threads, of which MLX lets the last
// threadgroups be smaller; here they are whole, and threads outside of the grid end at once. Of the address spaces,
// `constant` alone is told from the others: a pointer to what is there is none to what is volatile.
#pragma once
#define device
#define thread
#define constant volatile

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned long ulong;
typedef _Float16 half;
struct uint3 { uint x, y, z; };

template <class T, class F> static T as_type(F from) {
    static_assert(sizeof(T) == sizeof(F), "a type of another size");
    T to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline uint popcount(uint bits) { return (uint)__builtin_popcount(bits); }
using std::exp;
using std::fabs;
using std::ldexp;
using std::tanh;

enum class mem_flags { mem_none, mem_device, mem_threadgroup };
static inline void threadgroup_barrier(mem_flags) { __syncthreads(); }
template <class T> MEETING T simd_sum(T value) {
    for (int step = 1; step < 32; step *= 2)
        value += emulation::shuffled(~0u, value, emulation::lane() ^ step, SITE);
    return value;
}
template <class T> MEETING T simd_max(T value) {
    for (int step = 1; step < 32; step *= 2)
        value = std::max(value, emulation::shuffled(~0u, value, emulation::lane() ^ step, SITE));
    return value;
}

#define thread_index_in_simdgroup ((uint)emulation::lane())
#define thread_position_in_threadgroup (uint3{threadIdx.x, 0, 0})
#define threadgroup_position_in_grid (uint3{blockIdx.x, blockIdx.y, blockIdx.z})
#define thread_position_in_grid (uint3{blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y, blockIdx.z})
