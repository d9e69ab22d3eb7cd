// Types and conversions that need no header of the CUDA toolkit.
#pragma once
typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef u16 f16;  // the bits of a half
#define INFINITE 3.402823466e38f

#ifndef RASE_EMULATED
__device__ __forceinline__ float half_to_float(f16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ f16 float_to_half(float value) {
    f16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif

__device__ __forceinline__ float bfloat_to_float(u16 bits) { return __int_as_float((int)((u32)bits << 16)); }

// What a buffer of keys and values or a float matrix holds, by its number.
struct F32 {
    typedef float Stored;
    static __device__ __forceinline__ float get(float x) { return x; }
    static __device__ __forceinline__ float put(float x) { return x; }
};
struct F16 {
    typedef f16 Stored;
    static __device__ __forceinline__ float get(f16 x) { return half_to_float(x); }
    static __device__ __forceinline__ f16 put(float x) { return float_to_half(x); }
};
struct Bf16 {
    typedef u16 Stored;
    static __device__ __forceinline__ float get(u16 x) { return bfloat_to_float(x); }
};
