#include "numbers.cuh"
#define TWO_PI 6.283185307179586477

// A thread for each pair of each head of each row, in place. Angles are computed in double and brought to one turn.
extern "C" __global__ void rotate(
    float* x, const double* frequencies, const int* positions, int heads, int length, int pairs, int adjacent,
    double magnitude, double growth, int growth_length, int growth_first, i64 count) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= count) return;
    int pair = (int)(index % pairs);
    i64 head = index / pairs;
    int position = positions[head / heads];
    double angle = position * frequencies[pair];
    float turn = (float)(angle - TWO_PI * rint(angle / TWO_PI));
    float factor = (float)(magnitude * (growth == 0.0 ? 1.0 : 1.0 + growth * log1p((double)((position + growth_first) / growth_length))));
    float cosine = cosf(turn) * factor, sine = sinf(turn) * factor;
    float* own = x + head * length;
    int first = adjacent ? 2 * pair : pair, second = adjacent ? first + 1 : pair + pairs;
    float a = own[first], b = own[second];
    own[first] = a * cosine - b * sine;
    own[second] = a * sine + b * cosine;
}
