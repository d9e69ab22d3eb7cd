"""What the CUDA backend takes of a GPU's memory, and what it does where that is not enough."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.errors import BackendFailure, DeviceOutOfMemory
from rase_models.architectures import build_program
from rase_models.backends.base import Rows
from rase_models.backends.cuda import CudaBackend
from rase_models.backends.cuda.device import Launch, Source
from rase_models.backends.cuda.footprint import weights_nbytes, workspace_nbytes
from rase_models.backends.cuda.inputs import Inputs
from rase_models.backends.cuda.lowering import products
from rase_models.backends.cuda.lowering.experts import MOST_EXPERTS
from rase_models.backends.cuda.lowering.recurrent import MOST_KEYS, MOST_TAPS
from rase_models.backends.cuda.runner import MAX_ROWS
from rase_models.backends.cuda.sources import source_text
from rase_models.gguf import GgmlType, TensorInfo, Weight, open_gguf
from rase_models.program import (
    Activation,
    Attention,
    Embed,
    GatedDelta,
    KvLayer,
    Linear,
    MoeFfn,
    Op,
    Program,
    SelectOutputs,
)
from rase_models.testing_blocks import random_blocks
from rase_models.testing_cuda import EmulatedDevice, has_compiler
from rase_models.testing_cuda.compiler import library
from rase_models.testing_sketches import sketch, write_gguf

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no g++ to compile CUDA C for the CPU")


@pytest.fixture
def device() -> Iterator[EmulatedDevice]:
    """A device that everything is given back to in the end."""
    device = EmulatedDevice()
    yield device
    assert device.held_nbytes == 0


def rows_of(count: int, blocks: int = 32) -> Rows:
    numbers = np.arange(count, dtype=np.int32)
    return Rows(np.zeros(count, np.int32), numbers, numbers % 8, numbers, np.zeros((1, 1, blocks), np.int32))


@pytest.mark.parametrize("architecture", ["llama", "gpt-oss", "deepseek2", "mamba2", "gemma3n"])
def test_as_much_is_taken_as_was_planned(architecture: str, tmp_path: Path, device: EmulatedDevice) -> None:
    file = open_gguf(write_gguf(tmp_path / "model.gguf", architecture, *sketch(architecture)))
    program = build_program(file)
    runner = CudaBackend(device).load(program, file.weights())
    at_first = device.held_nbytes
    for group in range(len(program.kv_groups)):
        runner.reserve(group, 1)
    runner.reserve_states(1)
    kept = device.held_nbytes - at_first
    slots = np.zeros(1 if program.state_sizes else 0, np.int32)
    for count in (1, 8, 9, 60):
        numbers = np.arange(count, dtype=np.int32)
        tables = np.zeros((len(program.kv_groups), 1, 1), np.int32)
        runner.run(Rows(np.zeros(count, np.int32), numbers, numbers % 8, numbers, tables, slots))
    needs = CudaBackend(device).memory_needs(program, file.tensors)
    planned, taken = needs.weights + needs.workspace, device.held_nbytes - kept
    assert planned <= taken <= planned + 4096 + 256 * len(program.tensors)  # block tables, numbers of ops
    assert needs.free == device.free
    runner.close()


def test_what_has_no_room_to_compute_in_is_not_loaded(tmp_path: Path) -> None:
    file = open_gguf(write_gguf(tmp_path / "model.gguf", "llama", *sketch("llama")))
    program = build_program(file)
    weights = weights_nbytes(program, file.tensors)
    device = EmulatedDevice(nbytes=weights + workspace_nbytes(program, file.tensors, MAX_ROWS) // 2)
    with pytest.raises(DeviceOutOfMemory):
        CudaBackend(device).load(program, file.weights())
    assert device.held_nbytes == 0


def test_block_tables_that_have_no_room_leave_those_there_are(device: EmulatedDevice) -> None:
    moves: list[None] = []
    inputs = Inputs(device, 16, lambda: moves.append(None))
    inputs.write(rows_of(3))
    tables = inputs.tables
    device.free = 0
    with pytest.raises(DeviceOutOfMemory):
        inputs.write(rows_of(3, blocks=5000))
    assert (inputs.tables, len(moves)) == (tables, 1)
    inputs.write(rows_of(3))
    inputs.close()


def floats(name: str, values: NDArray[np.float32]) -> Weight:
    info = TensorInfo(name, GgmlType.F32, values.shape, 0, values.nbytes)
    return Weight(info, np.ascontiguousarray(values).reshape(-1).view(np.uint8))


@pytest.mark.parametrize("type_", [GgmlType.Q4_K, GgmlType.Q6_K, GgmlType.BF16], ids=lambda type_: type_.name)
def test_a_large_matrix_is_dequantised_in_parts(
    type_: GgmlType, device: EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    outs, columns, rows = 200, 256, 11
    data = random_blocks(type_, (outs, columns), seed=1, limit=0x2F).reshape(-1)
    values = np.random.default_rng(0).normal(size=(8, columns)).astype(np.float32)
    weights = [floats("rows", values), Weight(TensorInfo("w", type_, (outs, columns), 0, data.size), data)]
    ops = (Embed("x", "rows"), SelectOutputs("s", "x"), Linear("logits", "s", "w"))
    program = Program("parts", outs, 64, ops, {"x": columns, "s": columns, "logits": outs}, ())
    found = []
    for most in (1 << 26, 1):
        monkeypatch.setattr(products, "_MOST_DEQUANTISED", most)
        runner = CudaBackend(device).load(program, iter(weights))
        found.append(runner.run(rows_of(rows)))
        runner.close()
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6, atol=1e-6 * np.abs(found[0]).max())


@pytest.mark.parametrize("bias", [None, np.nan])
@pytest.mark.parametrize("groups", [1, 2])
def test_scores_that_are_no_numbers_choose_experts_that_there_are(
    bias: float | None, groups: int, device: EmulatedDevice
) -> None:
    """What they choose is an address: one beyond the last expert would cost the process its GPU."""
    experts, used = 6, 3
    logits = device.allocate(4 * experts)
    device.write(logits.address, np.full(experts, np.nan if bias is None else 0.0, np.float32))
    biases = device.allocate(4 * experts)
    device.write(biases.address, np.full(experts, bias or 0.0, np.float32))
    choice, shares = device.allocate(4 * used), device.allocate(4 * used)
    addresses = (np.uint64(memory.address) for memory in (choice, shares, logits, biases))
    sizes = (*map(np.int32, (experts, used, 1, 1)), np.float32(1), np.int32(groups), np.int32(1))
    source = Source("experts.cu")
    device.run(library(source), Launch(source, "choose", (1, 1, 1), 32, (*addresses, *sizes)))
    chosen = np.empty(used, np.int32)
    device.read(choice.address, chosen)
    assert ((chosen >= 0) & (chosen < experts)).all()
    for memory in (logits, biases, choice, shares):
        device.release(memory)


def constants(file: str) -> Mapping[str, str]:
    lines = (line.split() for line in source_text(file).splitlines() if line.startswith("#define MOST"))
    return {line[1]: line[2] for line in lines}


def test_the_limits_of_kernels_are_those_that_are_checked() -> None:
    assert constants("experts.cu") == {"MOST_EXPERTS": str(MOST_EXPERTS)}
    assert constants("recurrent.cu") == {"MOST_TAPS": str(MOST_TAPS)}


def test_more_experts_than_kernels_take_are_refused_when_a_model_is_loaded(device: EmulatedDevice) -> None:
    experts, width = MOST_EXPERTS + 1, 4
    op = MoeFfn("logits", "x", "router", "gate", "up", "down", experts, 1, Activation.SILU)
    rng = np.random.default_rng(0)
    shapes = {"rows": (8, width), "router": (experts, width)} | dict.fromkeys(
        ("gate", "up", "down"), (experts, width, width)
    )
    weights = [floats(name, rng.normal(size=shape).astype(np.float32)) for name, shape in shapes.items()]
    ops = (Embed("e", "rows"), SelectOutputs("x", "e"), op)
    program = Program("experts", width, 64, ops, dict.fromkeys(("e", "x", "logits"), width), ())
    with pytest.raises(BackendFailure, match="1024 experts, not 1025"):
        CudaBackend(device).load(program, iter(weights))


@pytest.mark.parametrize(
    ("op", "width", "reason"),
    [
        (Attention("logits", "x", "x", "x", 0, 1, 1, 1024, 1024, 1.0), 1024, "no heads as long as 1024"),
        (
            GatedDelta("logits", "x", "x", "x", "x", "x", "decay", 1, 1, 1e-6, 0),
            MOST_KEYS + 8,
            "4096 keys of a head, not 4104",
        ),
    ],
    ids=["attention", "gated delta"],
)
def test_heads_that_shared_memory_has_no_room_for_are_refused_when_a_model_is_planned(
    op: Op, width: int, reason: str, device: EmulatedDevice
) -> None:
    weights = [floats("rows", np.ones((8, width), np.float32)), floats("decay", np.ones(1, np.float32))]
    tensors = {weight.info.name: weight.info for weight in weights}
    layers = (KvLayer(1, width, width),) if isinstance(op, Attention) else ()
    ops = (Embed("e", "rows"), SelectOutputs("x", "e"), op)
    program = Program("heads", width, 64, ops, dict.fromkeys(("e", "x", "logits"), width), layers)
    with pytest.raises(BackendFailure, match=reason):
        CudaBackend(device).memory_needs(program, tensors)
