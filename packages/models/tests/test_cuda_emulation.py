"""The emulation of CUDA C: faults that are planted in kernels are found."""

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_models.backends.cuda.device import Launch, Source
from rase_models.testing_cuda import EmulatedDevice, EmulatedFault, has_compiler
from rase_models.testing_cuda.compiler import library_of

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no g++ to compile CUDA C for the CPU")

Floats = NDArray[np.float32]

RACE = """
#include "reduction.cuh"
extern "C" __global__ void planted(float* out) {
    __shared__ float values[64];
    values[threadIdx.x] = threadIdx.x;
    BARRIER
    out[threadIdx.x] = values[63 - threadIdx.x];
}
"""
WRITE = 'extern "C" __global__ void planted(float* out) { out[threadIdx.x + 1] = 1.0f; }'
LOAD = 'extern "C" __global__ void planted(float* out) { out[0] = ((const float4*)(out + 1))[0].x; }'
BEFORE = 'extern "C" __global__ void planted(float* out) { out[(int)threadIdx.x - 1] = 1.0f; }'
ARRAY = """
extern "C" __global__ void planted(float* out) {
    __shared__ float values[64];
    values[threadIdx.x + 1] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = values[threadIdx.x];
}
"""
DYNAMIC = """
extern "C" __global__ void planted(float* out) {
    extern __shared__ float values[];
    values[(int)threadIdx.x - 1] = 1.0f;
    out[threadIdx.x] = 1.0f;
}
"""
UNWRITTEN = """
extern "C" __global__ void planted(float* out) {
    __shared__ float values[64];
    if (blockIdx.x == 0 || threadIdx.x % 2 == 0) values[threadIdx.x] = 1.0f;
    __syncthreads();
    if (blockIdx.x == 1) out[threadIdx.x] = values[threadIdx.x];
}
"""
WARP_RACE = """
#include "reduction.cuh"
extern "C" __global__ void planted(float* out) {
    __shared__ float values[64];
    values[threadIdx.x] = threadIdx.x;
    BARRIER
    out[threadIdx.x] = values[threadIdx.x ^ 1];
}
"""
BLOCKS = """
extern "C" __global__ void planted(float* out) {
    if (threadIdx.x == 0) out[0] = out[0] * 2 + blockIdx.x;
}
"""
LANES = """
extern "C" __global__ void planted(float* out) {
    if (threadIdx.x < 31) out[0] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}
"""
HALF = 'extern "C" __global__ void planted(float* out) { if (threadIdx.x < 32) __syncthreads(); }'


def planted(text: str, seed: int = 0, blocks: int = 1) -> Floats:
    """Run a kernel of 64 threads, in one block or more, on 64 floats."""
    device = EmulatedDevice(seed)
    memory = device.allocate(4 * 64)
    launch = Launch(
        Source("planted"), "planted", (blocks, 1, 1), 64, (np.uint64(memory.address),), shared=256
    )
    device.run(library_of(text), launch)
    out = np.empty(64, np.float32)
    device.read(memory.address, out)
    return out


def test_a_planted_race_is_found_by_the_order_of_threads() -> None:
    right, wrong = (RACE.replace("BARRIER", barrier) for barrier in ("__syncthreads();", ""))
    assert all(np.array_equal(planted(right, seed), np.arange(64)[::-1]) for seed in range(3))
    assert not np.array_equal(planted(wrong, 0), planted(wrong, 1))


def test_a_race_within_a_warp_is_found_by_the_order_of_lanes() -> None:
    right, wrong = (WARP_RACE.replace("BARRIER", barrier) for barrier in ("__syncwarp();", ""))
    assert all(np.array_equal(planted(right, seed), np.arange(64) ^ 1) for seed in range(3))
    assert not np.array_equal(planted(wrong, 0), planted(wrong, 1))


def test_a_race_between_blocks_is_found_by_their_order() -> None:
    assert planted(BLOCKS, 0, blocks=3)[0] != planted(BLOCKS, 1, blocks=3)[0]


def test_shared_memory_that_a_block_has_not_written_holds_no_numbers() -> None:
    found = planted(UNWRITTEN, blocks=2)
    np.testing.assert_array_equal(np.isnan(found), np.arange(64) % 2 == 1)


@pytest.mark.parametrize(
    "text, fault",
    [
        (WRITE, "outside of an allocation"),
        (BEFORE, "outside of an allocation"),
        (ARRAY, "outside of an array in shared memory"),
        (DYNAMIC, "outside of an array in shared memory"),
        (LOAD, "not aligned"),
        (LANES, "not reached by all its lanes"),
        (HALF, "barrier is not reached"),
    ],
)
def test_planted_faults_are_found(text: str, fault: str) -> None:
    with pytest.raises(EmulatedFault, match=fault):
        planted(text)


def test_arguments_of_other_sizes_than_the_kernels_are_found() -> None:
    device = EmulatedDevice()
    launch = Launch(Source("planted"), "planted", (1, 1, 1), 32, (np.int32(0),))
    with pytest.raises(EmulatedFault, match="bytes for"):
        device.run(library_of(WRITE), launch)


@pytest.mark.parametrize(
    ("grid", "threads", "shared"),
    [
        ((0, 1, 1), 64, 0),
        ((1, 65_536, 1), 64, 0),
        ((1, 1, 65_536), 64, 0),
        ((1, 1, 1), 2048, 0),
        ((1, 1, 1), 48, 0),
        ((1, 1, 1), 64, 49_153),
    ],
)
def test_launches_that_a_gpu_refuses_are_found(grid: tuple[int, int, int], threads: int, shared: int) -> None:
    device = EmulatedDevice()
    memory = device.allocate(4 * 64)
    launch = Launch(Source("planted"), "planted", grid, threads, (np.uint64(memory.address),), shared)
    with pytest.raises(EmulatedFault, match="planted: "):
        device.run(library_of(BLOCKS), launch)
