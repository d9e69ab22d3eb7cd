// How 32 columns of a quantised matrix are read. The planes are what formats.py makes of a file's blocks.
//
// Macros, one set for a type: LOW_BITS (2, 4, 8), HIGH_BITS (0, 1, 2), SCALES (below), OFFSET, and LOOKUP (0, 1, 2).
#pragma once
#include "numbers.cuh"

#define SCALES_HALF 1        // half d a group: d * (code - OFFSET)
#define SCALES_HALF_PAIR 2   // half d, m a group: d * code + m
#define SCALES_K 3           // bytes scale, minimum a group; half d, dmin of 256 columns
#define SCALES_NIBBLES 4     // a byte for 16 columns, scale below minimum; half d, dmin of 256 columns
#define SCALES_BYTES 5       // a signed byte for 16 columns; half d of 256 columns
#define SCALES_FLOAT 6       // float a group
#define SCALES_FLOAT_PAIR 7  // float for 16 columns

struct Planes {
    const u8* low;
    const u8* high;
    const u8* scales;
    const u8* supers;
};

// value = scale * code + offset, each for 16 columns; four codes in a word, the first in its lowest byte.
struct Group {
    int codes[8];
    float scale[2];
    float offset[2];
};

__device__ __forceinline__ float half_at(const u8* plane, i64 index) {
    return half_to_float(((const f16*)plane)[index]);
}

#if LOOKUP == 1
__constant__ i8 VALUES[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
#elif LOOKUP == 2
__constant__ i8 VALUES[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
#endif

__device__ __forceinline__ int looked_up(int word) {
#if LOOKUP
    u32 found = 0;
    for (int place = 0; place < 4; ++place)
        found |= (u32)(u8)VALUES[((u32)word >> (8 * place)) & 15] << (8 * place);
    return (int)found;
#else
    return word;
#endif
}

__device__ __forceinline__ void read_codes(const Planes& planes, i64 group, int* codes) {
#if LOW_BITS == 8
    const int4* whole = (const int4*)(planes.low + group * 32);
    int4 first = whole[0], second = whole[1];
    codes[0] = first.x, codes[1] = first.y, codes[2] = first.z, codes[3] = first.w;
    codes[4] = second.x, codes[5] = second.y, codes[6] = second.z, codes[7] = second.w;
#elif LOW_BITS == 4
    int4 whole = *(const int4*)(planes.low + group * 16);
    int words[4] = {whole.x, whole.y, whole.z, whole.w};
    for (int word = 0; word < 4; ++word) {
        codes[word] = looked_up(words[word] & 0x0f0f0f0f);
        codes[word + 4] = looked_up((words[word] >> 4) & 0x0f0f0f0f);
    }
#else
    int2 whole = *(const int2*)(planes.low + group * 8);
    for (int pair = 0; pair < 4; ++pair) {
        codes[2 * pair] = (whole.x >> (2 * pair)) & 0x03030303;
        codes[2 * pair + 1] = (whole.y >> (2 * pair)) & 0x03030303;
    }
#endif
}

__device__ __forceinline__ void add_high_bits(const Planes& planes, i64 group, int* codes) {
    for (int plane = 0; plane < HIGH_BITS; ++plane) {
        u32 bits = ((const u32*)planes.high)[group * HIGH_BITS + plane];
        for (int word = 0; word < 8; ++word) {
            u32 spread = (((bits >> (4 * word)) & 15) * 0x00204081u) & 0x01010101u;
            codes[word] |= (int)(spread << (LOW_BITS + plane));
        }
    }
}

__device__ __forceinline__ void read_scales(const Planes& planes, i64 group, float* scale, float* offset) {
    for (int half = 0; half < 2; ++half) {
#if SCALES == SCALES_HALF
        scale[half] = half_at(planes.scales, group);
        offset[half] = -OFFSET * scale[half];
#elif SCALES == SCALES_HALF_PAIR
        u32 pair = ((const u32*)planes.scales)[group];
        scale[half] = half_to_float((f16)(pair & 0xffff));
        offset[half] = half_to_float((f16)(pair >> 16));
#elif SCALES == SCALES_K || SCALES == SCALES_NIBBLES
        u32 super = ((const u32*)planes.supers)[group / 8];
        u32 pair = ((const u16*)planes.scales)[group];
        u32 own = SCALES == SCALES_K ? pair & 255 : (pair >> (8 * half)) & 15;
        u32 minimum = SCALES == SCALES_K ? pair >> 8 : (pair >> (8 * half + 4)) & 15;
        scale[half] = half_to_float((f16)(super & 0xffff)) * (float)own;
        offset[half] = -half_to_float((f16)(super >> 16)) * (float)minimum;
#elif SCALES == SCALES_BYTES
        scale[half] = half_at(planes.supers, group / 8) * (float)((const i8*)planes.scales)[2 * group + half];
        offset[half] = -OFFSET * scale[half];
#elif SCALES == SCALES_FLOAT
        scale[half] = ((const float*)planes.scales)[group];
        offset[half] = -OFFSET * scale[half];
#else
        scale[half] = ((const float*)planes.scales)[2 * group + half];
        offset[half] = -OFFSET * scale[half];
#endif
    }
}

__device__ __forceinline__ Group read_group(const Planes& planes, i64 group) {
    Group found;
    read_codes(planes, group, found.codes);
    add_high_bits(planes, group, found.codes);
    read_scales(planes, group, found.scale, found.offset);
    return found;
}

__device__ __forceinline__ float value_of(const Group& group, int column) {
    int code = (int)(i8)((u32)group.codes[column / 4] >> (8 * (column % 4)));
    return group.scale[column / 16] * (float)code + group.offset[column / 16];
}
