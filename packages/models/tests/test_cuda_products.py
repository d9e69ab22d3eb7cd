"""Products that kernels of the CUDA backend make together, against the reference, in every type."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_models.backends import load_backend
from rase_models.backends.base import Rows
from rase_models.backends.cuda import CudaBackend
from rase_models.backends.cuda.device import Command, Launch
from rase_models.backends.cuda.formats import ELEMENTS, FORMATS
from rase_models.gguf import GgmlType, TensorInfo, Weight
from rase_models.kv_type import KvType
from rase_models.program import (
    Activation,
    Attention,
    Embed,
    GatedActivation,
    KvLayer,
    Linear,
    MoeFfn,
    Op,
    Program,
    SelectOutputs,
)
from rase_models.testing_blocks import random_blocks
from rase_models.testing_cuda import EmulatedDevice, has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no g++ to compile CUDA C for the CPU")

Floats = NDArray[np.float32]
OUTS, INNER, EXPERTS, USED = 37, 256, 5, 2
EXPERT_NAMES = ("gate", "up", "down")
ALL_TYPES = [*ELEMENTS, *FORMATS]
OFTEN = (GgmlType.F32, GgmlType.F16, GgmlType.Q4_K, GgmlType.Q6_K, GgmlType.Q8_0)


def name_of(value: object) -> str:
    """Return what a parameter is called in the names of tests."""
    return value.name if isinstance(value, GgmlType) else str(value)


ONE_OR_MORE = [
    pytest.param(type_, rows, marks=() if rows > 1 or type_ in OFTEN else pytest.mark.slow)
    for type_ in ALL_TYPES
    for rows in (1, 3)
]


class Watched(EmulatedDevice):
    """Keeps the names of the kernels that were run."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.kernels: list[str] = []

    def execute(self, commands: Sequence[Command]) -> None:
        self.kernels += [command.kernel for command in commands if isinstance(command, Launch)]
        super().execute(commands)


@pytest.fixture
def device() -> Iterator[Watched]:
    device = Watched()
    yield device
    assert device.held_nbytes == 0


def weight(name: str, type_: GgmlType, shape: tuple[int, ...], seed: int) -> Weight:
    limit = 0x3F if type_ is GgmlType.BF16 else 0x2F
    data = random_blocks(type_, (int(np.prod(shape[:-1])), shape[-1]), seed=seed, limit=limit).reshape(-1)
    return Weight(TensorInfo(name, type_, shape, 0, data.size), data)


def floats(name: str, values: Floats) -> Weight:
    info = TensorInfo(name, GgmlType.F32, values.shape, 0, values.nbytes)
    return Weight(info, np.ascontiguousarray(values).reshape(-1).view(np.uint8))


def rows_of(count: int, outputs: int | None = None) -> Rows:
    numbers = np.arange(count, dtype=np.int32)
    wanted = numbers[-(outputs or count) :]
    return Rows(np.zeros(count, np.int32), numbers, numbers, wanted, np.zeros((0, 1, 0), np.int32))


def both(
    program: Program, weights: list[Weight], rows: Rows, device: EmulatedDevice
) -> tuple[Floats, Floats]:
    """Return what the device computes, and the reference."""
    found = []
    for backend in (CudaBackend(device), load_backend("reference")):
        runner = backend.load(program, iter(weights))
        found.append(runner.run(rows))
        runner.close()
    return found[0], found[1]


def error_of(found: Floats, wanted: Floats) -> float:
    assert np.isfinite(found).all()
    difference = np.square(found.astype(np.float64) - wanted).sum()
    return float(difference / np.square(wanted.astype(np.float64)).sum())


def limit_of(type_: GgmlType) -> float:
    """Return how far 8-bit activations may lead."""
    return 2e-3 if type_ in FORMATS else 1e-9


def program(ops: tuple[Op, ...], widths: Mapping[str, int], vocab_size: int) -> Program:
    return Program("products", vocab_size, 256, ops, widths, ())


def columns_of(type_: GgmlType) -> int:
    return 512 if type_ in FORMATS else 77


@pytest.mark.parametrize(("type_", "rows"), ONE_OR_MORE, ids=name_of)
def test_three_matrices_for_the_same_rows_are_one_launch(type_: GgmlType, rows: int, device: Watched) -> None:
    columns = columns_of(type_)
    ops: tuple[Op, ...] = (
        Embed("e", "rows"),
        SelectOutputs("x", "e"),
        *(Linear(name, "x", name, f"{name}.bias") for name in "qkv"),
        GatedActivation("t", "q", "k", Activation.RELU),
        GatedActivation("logits", "t", "v", Activation.SIGMOID),
    )
    rng = np.random.default_rng(0)
    weights = [floats("rows", rng.normal(size=(16, columns)).astype(np.float32))]
    for seed, name in enumerate("qkv"):
        weights += [
            weight(name, type_, (OUTS, columns), seed),
            floats(f"{name}.bias", rng.normal(size=OUTS).astype(np.float32)),
        ]
    widths = {"e": columns, "x": columns, **dict.fromkeys(("q", "k", "v", "t", "logits"), OUTS)}
    found, wanted = both(program(ops, widths, OUTS), weights, rows_of(rows), device)
    assert error_of(found, wanted) < 30 * limit_of(type_)  # of three factors, two of which may be cut off
    assert [name for name in device.kernels if name.startswith("multiply")] == [
        f"multiply_{'one' if rows == 1 else 'four'}_joined"
    ]


@pytest.mark.parametrize(("type_", "rows"), ONE_OR_MORE, ids=name_of)
def test_gate_and_up_are_one_launch_with_their_activation(
    type_: GgmlType, rows: int, device: Watched
) -> None:
    columns = columns_of(type_)
    ops: tuple[Op, ...] = (
        Embed("e", "rows"),
        SelectOutputs("x", "e"),
        Linear("gate", "x", "gate", "gate.bias"),
        Linear("up", "x", "up"),
        GatedActivation("logits", "gate", "up", Activation.SILU),
    )
    rng = np.random.default_rng(0)
    weights = [
        floats("rows", rng.normal(size=(16, columns)).astype(np.float32)),
        weight("gate", type_, (OUTS, columns), 1),
        floats("gate.bias", rng.normal(size=OUTS).astype(np.float32)),
        weight("up", type_, (OUTS, columns), 2),
    ]
    widths = {"e": columns, "x": columns, **dict.fromkeys(("gate", "up", "logits"), OUTS)}
    found, wanted = both(program(ops, widths, OUTS), weights, rows_of(rows), device)
    assert error_of(found, wanted) < limit_of(type_)
    assert [name for name in device.kernels if "gate" in name or name.startswith("multiply")] == [
        f"multiply_{'one' if rows == 1 else 'four'}_gated"
    ]


@pytest.mark.parametrize(
    ("type_", "rows"),
    [*((type_, 41 if type_ in OFTEN else 18) for type_ in ALL_TYPES), *((type_, 2) for type_ in OFTEN)],
    ids=name_of,
)
def test_experts_are_taken_one_after_another_for_many_rows(
    type_: GgmlType, rows: int, device: Watched
) -> None:
    width = 256 if type_ in FORMATS else 24
    inner = INNER if type_ in FORMATS else 19
    experts = MoeFfn("logits", "x", "router", "gate", "up", "down", EXPERTS, USED, Activation.SILU)
    ops: tuple[Op, ...] = (Embed("e", "rows"), SelectOutputs("x", "e"), experts)
    rng = np.random.default_rng(0)
    weights = [
        floats("rows", rng.normal(size=(64, width)).astype(np.float32)),
        floats("router", rng.normal(size=(EXPERTS, width)).astype(np.float32)),
        weight("gate", type_, (EXPERTS, inner, width), 1),
        weight("up", type_, (EXPERTS, inner, width), 2),
        weight("down", type_, (EXPERTS, width, inner), 3),
    ]
    found, wanted = both(
        program(ops, {"e": width, "x": width, "logits": width}, width), weights, rows_of(rows), device
    )
    assert error_of(found, wanted) < 3 * limit_of(type_)
    grouped = device.kernels.count("multiply_eight_grouped")
    assert grouped == (3 if rows > 8 else 0)


def test_an_expert_that_nobody_chose_is_no_matter(device: Watched) -> None:
    width = 24
    experts = MoeFfn("logits", "x", "router", "gate", "up", "down", 70, 1, Activation.SILU)
    rng = np.random.default_rng(0)
    router = np.zeros((70, width), np.float32)
    router[69] = 1.0
    weights = [
        floats("rows", np.abs(rng.normal(size=(64, width))).astype(np.float32)),
        floats("router", router),
        *(
            floats(name, rng.normal(size=(70, width, width)).astype(np.float32))
            for name in ("gate", "up", "down")
        ),
    ]
    ops: tuple[Op, ...] = (Embed("e", "rows"), SelectOutputs("x", "e"), experts)
    widths = {"e": width, "x": width, "logits": width}
    found, wanted = both(program(ops, widths, width), weights, rows_of(33), device)
    assert error_of(found, wanted) < 1e-9


@pytest.mark.parametrize(("seed", "groups"), [(1, 1), (4, 1), (1, 8)])
def test_choosing_and_sorting_does_not_depend_on_the_order_of_threads(seed: int, groups: int) -> None:
    width = 24
    experts = MoeFfn(
        *("logits", "x", "router", "gate", "up", "down", 40, 3, Activation.SILU),
        groups=groups,
        groups_used=-(-groups // 2),
    )
    rng = np.random.default_rng(0)
    weights = [
        floats("rows", rng.normal(size=(64, width)).astype(np.float32)),
        floats("router", rng.normal(size=(40, width)).astype(np.float32)),
        *(
            floats(name, rng.normal(size=(40, width, width)).astype(np.float32))
            for name in ("gate", "up", "down")
        ),
    ]
    ops: tuple[Op, ...] = (Embed("e", "rows"), SelectOutputs("x", "e"), experts)
    made = program(ops, {"e": width, "x": width, "logits": width}, width)
    (first, wanted), (second, _) = (both(made, weights, rows_of(50), EmulatedDevice(at)) for at in (0, seed))
    assert error_of(first, wanted) < 1e-9
    np.testing.assert_array_equal(first, second)


def test_a_buffer_that_is_read_later_is_written_after_all(device: Watched) -> None:
    """Gate and up stay apart where something else needs what only one of them makes."""
    ops: tuple[Op, ...] = (
        Embed("e", "rows"),
        SelectOutputs("x", "e"),
        Linear("gate", "x", "gate"),
        Linear("up", "x", "up"),
        GatedActivation("t", "gate", "up", Activation.SILU),
        GatedActivation("logits", "t", "up", Activation.RELU),
    )
    rng = np.random.default_rng(0)
    weights = [floats(name, rng.normal(size=(16, 16)).astype(np.float32)) for name in ("rows", "gate", "up")]
    widths = dict.fromkeys(("e", "x", "gate", "up", "t", "logits"), 16)
    found, wanted = both(program(ops, widths, 16), weights, rows_of(2), device)
    assert error_of(found, wanted) < 1e-9
    assert "multiply_four_joined" in device.kernels


@pytest.mark.parametrize(
    ("heads", "kv_heads", "length", "window", "chunked"),
    [
        (4, 2, 16, None, False),
        (4, 4, 40, 21, False),
        (6, 2, 33, 16, True),
        (8, 1, 576, None, False),
        (8, 1, 33, 9, False),
    ],
)
def test_tiles_of_rows_attend_as_rows_do_whatever_the_sequences(
    heads: int, kv_heads: int, length: int, window: int | None, chunked: bool, device: Watched
) -> None:
    """Three sequences of 23, 1 and 17 rows, so that tiles begin and end within them."""
    width, kept = heads * length, kv_heads * length
    op = Attention(
        "a", "q", "k", "v", 0, heads, kv_heads, length, length, 0.2, window=window, chunked=chunked
    )
    widths = {"q": width, "k": kept, "v": kept}
    ops: tuple[Op, ...] = (*(Embed(name, f"{name}s") for name in widths), op, SelectOutputs("logits", "a"))
    layer = KvLayer(kv_heads, length, length, None)
    made = Program("attention", width, 256, ops, {**widths, "a": width, "logits": width}, (layer,))
    rng = np.random.default_rng(heads)
    weights = [
        floats(f"{name}s", rng.normal(size=(64, columns)).astype(np.float32))
        for name, columns in widths.items()
    ]
    counts = (23, 1, 17)
    positions = np.concatenate([np.arange(count) for count in counts]).astype(np.int32)
    tokens = np.arange(sum(counts), dtype=np.int32)
    sequences = np.repeat(np.arange(3, dtype=np.int32), counts)
    tables = np.array([[[2], [0], [1]]], np.int32)
    rows = Rows(sequences, positions, tokens, tokens, tables)
    results = []
    for backend in (CudaBackend(device), load_backend("reference")):
        runner = backend.load(made, iter(weights), kv_type=KvType.F32)
        runner.reserve(0, 3)
        results.append(runner.run(rows))
        runner.close()
    assert error_of(results[0], results[1]) < 1e-9
    assert "attend_four" in device.kernels


def test_a_recorded_step_holds_no_call_of_another_library(device: Watched) -> None:
    """What is recorded reads tokens from the device: replayed for others, it has their logits."""
    ops: tuple[Op, ...] = (Embed("e", "rows"), SelectOutputs("x", "e"), Linear("logits", "x", "w"))
    rng = np.random.default_rng(0)
    weights = [floats(name, rng.normal(size=(16, 32)).astype(np.float32)) for name in ("rows", "w")]
    made = program(ops, {"e": 32, "x": 32, "logits": 16}, 16)
    runner = CudaBackend(device).load(made, iter(weights))
    reference = load_backend("reference").load(made, iter(weights))
    first = len(device.kernels)
    for token in (3, 9, 3):
        rows = replace(rows_of(1), tokens=np.array([token], np.int32))
        np.testing.assert_allclose(runner.run(rows), reference.run(rows), rtol=1e-5, atol=1e-5)
    assert len(device.kernels) - first == 3 * len(set(device.kernels[first:]))
    runner.close()
