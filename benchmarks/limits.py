"""What this machine can do at most: read memory and add 8-bit products, with the kernels' own vectors."""

import threading
import time
from collections.abc import Callable

import numpy as np
from rase_models.backends.cpu.arena import Region
from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.dot import add_products
from rase_models.backends.cpu.emission.types import I32X16, I64, Value, constant
from rase_models.backends.cpu.simd import compiled_for_python
from rase_models.backends.cpu.simd.operation import i64, operation, void

_STREAM_NBYTES = 1 << 29
_DOTS = 16
_ROUNDS = 1_000_000
_AHEAD = 4096


@operation(void, i64, i64, i64)
def _sum_bytes(code: Code, address: Value, nbytes: Value, result: Value) -> None:
    """Add up memory in four vectors."""
    b = code.builder
    totals = [code.variable(constant(I32X16, 0)) for _ in range(4)]
    with code.loop(b.lshr(nbytes, constant(I64, 8))) as index:
        line = code.at(address, code.times(index, 256))
        for part, total in enumerate(totals):
            code.prefetch(code.at(line, 64 * part + _AHEAD), code.instruction_set.kv_hint)
            b.store(b.add(b.load(total), code.load(code.at(line, 64 * part), I32X16, 64)), total)
    for part, total in enumerate(totals):
        code.store(code.at(result, 64 * part), b.load(total))


@operation(void, i64, i64, i64)
def _many_dots(code: Code, address: Value, rounds: Value, result: Value) -> None:
    """Add dot products to 16 sums, their operands in registers and in the first-level cache."""
    b = code.builder
    totals = [code.variable(constant(I32X16, 0)) for _ in range(_DOTS)]
    weights = code.load(address, I32X16, 64)
    with code.loop(rounds):
        here = code.opaque(address)
        for part, total in enumerate(totals):
            x = code.load_splat(code.at(here, 4 * part), I32X16.element)
            (value,) = add_products(code, [b.load(total)], [(weights, [x])], 7, False)
            b.store(value, total)
    for part, total in enumerate(totals):
        code.store(code.at(result, 64 * part), b.load(total))


@compiled_for_python
def _read(address: int, nbytes: int, result: int) -> None:
    _sum_bytes(address, nbytes, result)


@compiled_for_python
def _multiply(address: int, rounds: int, result: int) -> None:
    _many_dots(address, rounds, result)


def _seconds(threads: int, work: Callable[[int], None], repeats: int) -> float:
    """Return the least time in which all threads did their work at once."""
    work(0)
    best = float("inf")
    for _ in range(repeats):
        others = [threading.Thread(target=work, args=(number,)) for number in range(1, threads)]
        start = time.perf_counter()
        for other in others:
            other.start()
        work(0)
        for other in others:
            other.join()
        best = min(best, time.perf_counter() - start)
    return best


def read_bandwidth(threads: int) -> float:
    """Return the GB/s at which so many threads together read memory that no cache holds."""
    memory, results = Region(_STREAM_NBYTES), Region(4096 * threads)
    memory.bytes[:: np.int64(4096)] = 1
    part = _STREAM_NBYTES // threads

    def work(number: int) -> None:
        _read(memory.address + number * part, part, results.address + 4096 * number)

    return _STREAM_NBYTES / _seconds(threads, work, 8) / 1e9


def int8_peak(threads: int) -> float:
    """Return the GOP/s, two for each product, of so many threads that do nothing but dot products."""
    memory, results = Region(4096), Region(4096 * threads)

    def work(number: int) -> None:
        _multiply(memory.address, _ROUNDS, results.address + 4096 * number)

    return threads * _ROUNDS * _DOTS * 16 * 4 * 2 / _seconds(threads, work, 8) / 1e9
