"""The CUDA backend against the reference: its own kernels run on the CPU by an emulation of CUDA C."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.errors import BackendUnavailable, DeviceOutOfMemory
from rase_models.architectures import build_program
from rase_models.backends import load_backend
from rase_models.backends.base import Rows
from rase_models.backends.cuda import CudaBackend
from rase_models.backends.cuda.formats import ELEMENTS, FORMATS
from rase_models.backends.cuda.lowering.attention import block_shape
from rase_models.decoder import ProgramDecoder
from rase_models.device_check import check_backend
from rase_models.gguf import GgmlType, TensorInfo, Weight, open_gguf
from rase_models.gguf.quants import dequantize
from rase_models.kv_type import KvType
from rase_models.loading import load_decoder, load_on
from rase_models.program import Attention, Embed, KvLayer, Linear, Op, Program, SelectOutputs
from rase_models.testing_blocks import random_blocks
from rase_models.testing_cuda import EmulatedDevice, has_compiler
from rase_models.testing_sketches import TENSORS, sketch, write_gguf
from rase_models.testing_steps import step

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no g++ to compile CUDA C for the CPU")

Floats = NDArray[np.float32]
FEW, MANY = 3, 11
"""Rows that own kernels multiply, and so many that cuBLAS does."""
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
QUICK = ("llama", "gemma3", "gpt-oss", "deepseek2", "mamba2", "qwen35")


@pytest.fixture
def device() -> Iterator[EmulatedDevice]:
    """A device that everything is given back to in the end."""
    device = EmulatedDevice()
    yield device
    assert device.held_nbytes == 0


def error_of(found: Floats, wanted: Floats) -> float:
    """Return the mean squared error, normalised."""
    difference = np.square(found.astype(np.float64) - wanted).sum()
    return float(difference / np.square(wanted.astype(np.float64)).sum())


def model(folder: Path, architecture: str) -> Path:
    return write_gguf(folder / "model.gguf", architecture, *sketch(architecture))


def decoder_of(path: Path, device: EmulatedDevice, kv_type: KvType | None = None) -> ProgramDecoder:
    return load_on(CudaBackend(device), open_gguf(path), kv_type=kv_type)


def check_architecture(path: Path, device: EmulatedDevice) -> None:
    """Compare a prompt of many rows, and the same prompt in steps of few."""
    reference = load_decoder(path, device="reference")
    wanted = np.asarray(reference.logits(TOKENS))
    decoder = decoder_of(path, device)
    assert error_of(np.asarray(decoder.logits(TOKENS)), wanted) < 2e-5
    steps = [np.asarray(decoder.prefill(TOKENS[:4])), *(np.asarray(decoder.decode(t)) for t in TOKENS[4:])]
    assert error_of(np.stack(steps), wanted[3:]) < 2e-5
    decoder.close()


@pytest.mark.parametrize("architecture", QUICK)
def test_architectures_have_the_logits_of_the_reference(
    architecture: str, tmp_path: Path, device: EmulatedDevice
) -> None:
    check_architecture(model(tmp_path, architecture), device)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", sorted({"llama", *TENSORS} - set(QUICK)))
def test_every_architecture_has_the_logits_of_the_reference(
    architecture: str, tmp_path: Path, device: EmulatedDevice
) -> None:
    check_architecture(model(tmp_path, architecture), device)


@pytest.mark.parametrize("architecture", ["gemma3", "mamba2"])
def test_sequences_in_a_batch_have_the_logits_that_they_have_alone(
    architecture: str, tmp_path: Path, device: EmulatedDevice
) -> None:
    path = model(tmp_path, architecture)
    alone = np.asarray(load_decoder(path, device="reference").logits([*TOKENS, 7]))
    decoder = decoder_of(path, device)
    first, second = decoder.new_sequence(), decoder.new_sequence()
    step(decoder, (first, 0, TOKENS), (second, 0, TOKENS[:4]))
    third = decoder.fork(first, len(TOKENS))
    step(decoder, (first, len(TOKENS), [11]), (second, 4, TOKENS[4:]), (third, len(TOKENS), [7]))
    kept = decoder.resume_length(first, len(TOKENS))
    decoder.truncate(first, kept)
    found = step(decoder, (second, len(TOKENS), [7]), (first, kept, [*TOKENS, 7][kept:]))
    decoder.close()
    assert error_of(found, np.stack([alone[-1], alone[-1]])) < 2e-5


def product(type_: GgmlType, outs: int, columns: int) -> tuple[Program, list[Weight], Floats, Floats]:
    """Return a program that looks rows up and multiplies them, its weights, and both matrices."""
    ops: tuple[Op, ...] = (Embed("x", "rows"), SelectOutputs("s", "x"), Linear("logits", "s", "w", scale=0.5))
    buffers = {"x": columns, "s": columns, "logits": outs}
    program = Program("product", outs, 64, ops, buffers, ())
    limit = 0x3F if type_ is GgmlType.BF16 else 0x2F
    weights, values = [], []
    for name, rows, seed in (("rows", 16, 1), ("w", outs, 2)):
        data = random_blocks(type_, (rows, columns), seed=seed, limit=limit).reshape(-1)
        weights.append(Weight(TensorInfo(name, type_, (rows, columns), 0, data.size), data))
        values.append(dequantize(type_, data, (rows, columns)))
    return program, weights, values[0], values[1]


def rows_of(count: int, position: int = 0, tokens: list[int] | None = None) -> Rows:
    tables = np.zeros((1, 1, 4), np.int32)
    tables[0, 0] = [2, 0, 3, 1]
    numbers = np.arange(count, dtype=np.int32)
    return Rows(np.zeros(count, np.int32), numbers + np.int32(position), numbers, numbers, tables)


@pytest.mark.parametrize("rows", [1, FEW, MANY])
@pytest.mark.parametrize("type_", [*ELEMENTS, *FORMATS], ids=lambda type_: type_.name)
def test_every_type_multiplies_and_is_looked_up(type_: GgmlType, rows: int, device: EmulatedDevice) -> None:
    program, weights, looked_up, matrix = product(type_, 37, 512 if type_ in FORMATS else 77)
    runner = CudaBackend(device).load(program, iter(weights))
    found = runner.run(rows_of(rows))
    runner.close()
    wanted = looked_up[:rows].astype(np.float64) @ matrix.T * 0.5
    limit = 5e-4 if type_ in FORMATS and rows <= FEW else 1e-6  # 8-bit activations
    assert error_of(found, wanted.astype(np.float32)) < limit


@pytest.mark.parametrize("seed", [1, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "architecture",
    ["bailingmoe2", "deepseek2", "gemma3", "gemma3n", "gpt-oss", "gpt2", "mamba2", "qwen35", "rwkv7"],
)
def test_no_kernel_depends_on_the_order_of_threads(architecture: str, seed: int, tmp_path: Path) -> None:
    path = model(tmp_path, architecture)
    decoders = [decoder_of(path, EmulatedDevice(order)) for order in (0, seed)]
    for tokens in (TOKENS, TOKENS[:3]):
        wanted, found = (decoder.logits(tokens) for decoder in decoders)
        assert np.isfinite(wanted).all()
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("heads, kv_heads, length", [(4, 2, 16), (6, 1, 40), (3, 3, 33), (8, 1, 576)])
@pytest.mark.parametrize("window, cap", [(None, None), (70, 5.0)])
def test_attention_is_that_of_the_reference_over_several_blocks(
    heads: int, kv_heads: int, length: int, window: int | None, cap: float | None, device: EmulatedDevice
) -> None:
    width, kept = heads * length, kv_heads * length
    op = Attention("a", "q", "k", "v", 0, heads, kv_heads, length, length, 0.3, window=window, soft_cap=cap)
    assert heads // kv_heads % block_shape(op, has_many_rows=True).heads == 0
    widths = {"q": width, "k": kept, "v": kept}
    looked_up = (Embed(name, f"{name}s") for name in widths)
    ops: tuple[Op, ...] = (*looked_up, op, SelectOutputs("logits", "a"))
    layer = KvLayer(kv_heads, length, length, window)
    program = Program("attention", width, 256, ops, {**widths, "a": width, "logits": width}, (layer,))
    rng = np.random.default_rng(heads)
    weights = []
    for name, columns in widths.items():
        values = rng.normal(size=(256, columns)).astype(np.float32)
        info = TensorInfo(f"{name}s", GgmlType.F32, values.shape, 0, values.nbytes)
        weights.append(Weight(info, values.reshape(-1).view(np.uint8)))
    results = []
    for backend in (CudaBackend(device), load_backend("reference")):
        runner = backend.load(program, iter(weights), kv_type=KvType.F32)
        runner.reserve(0, 4)
        for start, count in ((0, 100), (100, 1), (101, 2)):
            last = runner.run(rows_of(count, start))
        results.append(last)
        runner.close()
    assert error_of(results[0], results[1]) < 1e-9


def test_memory_that_is_not_there_is_named(tmp_path: Path) -> None:
    device = EmulatedDevice(nbytes=100_000)
    with pytest.raises(DeviceOutOfMemory, match="cuda"):
        decoder_of(model(tmp_path, "llama"), device)
    assert device.held_nbytes == 0


def test_a_runner_goes_on_after_memory_for_more_blocks_was_not_there(
    tmp_path: Path, device: EmulatedDevice
) -> None:
    file = open_gguf(model(tmp_path, "llama"))
    program = build_program(file)
    runner = CudaBackend(device).load(program, file.weights())
    runner.reserve(0, 4)
    wanted = runner.run(rows_of(3))
    layer = program.kv_layers[0]
    device.free = 500 * 64 * layer.head_count_kv * layer.key_length * 2 + 1000  # for keys, not for values
    with pytest.raises(DeviceOutOfMemory):
        runner.reserve(0, 500)
    np.testing.assert_array_equal(runner.run(rows_of(3)), wanted)
    runner.close()


def test_keys_and_values_may_be_kept_in_float32(tmp_path: Path, device: EmulatedDevice) -> None:
    path = model(tmp_path, "gemma2")
    wanted = np.asarray(load_decoder(path, device="reference").logits(TOKENS[:3]))
    decoder = decoder_of(path, device, KvType.F32)
    assert error_of(np.asarray(decoder.logits(TOKENS[:3])), wanted) < 1e-9
    decoder.close()


def test_the_backend_passes_its_check_and_does_not_pass_for_a_gpu(device: EmulatedDevice) -> None:
    backend = CudaBackend(device)
    assert "matrix product checked" in check_backend(backend)
    assert backend.is_stand_in


def test_a_machine_without_the_library_or_a_gpu_says_what_to_do() -> None:
    try:
        CudaBackend()
    except ModuleNotFoundError as error:
        assert error.name == "cupy"
    except BackendUnavailable as error:
        assert error.advice
    else:
        pytest.skip("there is an NVIDIA GPU")
