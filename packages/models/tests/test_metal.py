"""The Metal backend against the reference, on MLX's CPU device where there is no Apple GPU."""

import gc
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.errors import BackendFailure, DeviceOutOfMemory
from rase_core.sampling import GenerationConfig
from rase_models import Engine, load_decoder
from rase_models.architectures import build_program
from rase_models.device_check import check_backend, choose_among
from rase_models.gguf import TYPE_LAYOUTS, GgmlType, TensorInfo, Weight, open_gguf
from rase_models.gguf.quants import BLOCK_DTYPES, dequantize
from rase_models.kv_type import KvType
from rase_models.loading import load_on
from rase_models.program import Activation, Add, Linear, Op
from rase_models.testing_blocks import random_blocks
from rase_models.testing_sketches import TENSORS, sketch, write_gguf
from rase_models.testing_steps import step

mx = pytest.importorskip("mlx.core", reason="MLX is not installed: pip install 'rase-models[metal]'")

from rase_models.backends import BACKENDS, load_backend  # noqa: E402
from rase_models.backends.metal import MetalBackend, attention, device  # noqa: E402
from rase_models.backends.metal.activations import PLAIN_GATES  # noqa: E402
from rase_models.backends.metal.affine import AFFINE, GROUP, pack  # noqa: E402
from rase_models.backends.metal.groups import groups_of, window_of  # noqa: E402
from rase_models.backends.metal.matrices import AffineMatrix, matrix_of  # noqa: E402
from rase_models.backends.metal.ops import OPS  # noqa: E402
from rase_models.backends.metal.runner import MetalRunner  # noqa: E402
from rase_models.backends.metal.seen import Seen  # noqa: E402

Floats = NDArray[np.float32]
ARCHITECTURES = sorted({"llama", *TENSORS})
TOLERANCE = 1e-3 if device.has_gpu() else 1e-8  # a GPU multiplies in bfloat16
QUICK = (Activation.GELU_TANH, Activation.CLAMPED_SWIGLU)
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]


def error_of(found: Floats, wanted: Floats) -> float:
    """Return the mean squared error, normalised."""
    difference = np.square(found.astype(np.float64) - wanted).sum()
    return float(difference / np.square(wanted.astype(np.float64)).sum())


def model(folder: Path, architecture: str) -> Path:
    return write_gguf(folder / "model.gguf", architecture, *sketch(architecture))


def test_every_op_is_there() -> None:
    assert set(OPS) == set(get_args(Op))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_the_logits_of_the_reference(architecture: str, tmp_path: Path) -> None:
    path = model(tmp_path, architecture)
    found, wanted = (load_decoder(path, device=name).logits(TOKENS) for name in ("metal", "reference"))
    assert error_of(found, wanted) < TOLERANCE


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sequences_in_a_batch_have_the_logits_that_they_have_alone(architecture: str, tmp_path: Path) -> None:
    path = model(tmp_path, architecture)
    alone = load_decoder(path, device="metal").logits([*TOKENS, 7])
    decoder = load_decoder(path, device="metal")
    first, second = decoder.new_sequence(), decoder.new_sequence()
    step(decoder, (first, 0, TOKENS), (second, 0, TOKENS[:4]))
    third = decoder.fork(first, len(TOKENS))
    step(decoder, (first, len(TOKENS), [11]), (second, 4, TOKENS[4:]), (third, len(TOKENS), [7]))
    kept = decoder.resume_length(first, len(TOKENS))
    decoder.truncate(first, kept)
    found = step(decoder, (second, len(TOKENS), [7]), (first, kept, [*TOKENS, 7][kept:]))
    np.testing.assert_allclose(found, np.stack([alone[-1], alone[-1]]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("type_", AFFINE, ids=lambda type_: type_.name)
def test_weights_keep_their_values_or_come_near(type_: GgmlType) -> None:
    columns = max(256, TYPE_LAYOUTS[type_][0])
    data = random_blocks(type_, (8, columns), seed=int(type_))
    info = TensorInfo("w", type_, (8, columns), 0, data.size)
    matrix = matrix_of(Weight(info, data.reshape(-1)), device.this_device())
    assert isinstance(matrix, AffineMatrix)
    wanted = dequantize(type_, data, (8, columns))
    found = np.array(matrix.floats())
    scale = np.abs(wanted.reshape(8, -1, GROUP)).max(axis=-1, keepdims=True).repeat(GROUP, -1).reshape(8, -1)
    tolerance = 1e-6 if AFFINE[type_].is_exact else 2.1 / 254
    assert (np.abs(found - wanted) <= tolerance * scale).all()


@pytest.mark.parametrize("type_", sorted(set(BLOCK_DTYPES) - {GgmlType.F32}), ids=lambda type_: type_.name)
def test_every_type_multiplies_and_is_looked_up(type_: GgmlType) -> None:
    data = random_blocks(type_, (24, 256), seed=1, limit=0x2F)
    info = TensorInfo("w", type_, (24, 256), 0, data.size)
    matrix = matrix_of(Weight(info, data.reshape(-1)), device.this_device())
    kept = np.array(matrix.floats())
    x = np.random.default_rng(2).normal(size=(3, 256)).astype(np.float32)
    np.testing.assert_allclose(np.array(matrix.times(mx.array(x))), x @ kept.T, rtol=1e-3, atol=1e-2)
    np.testing.assert_array_equal(np.array(matrix.rows(mx.array([5, 0]))), kept[[5, 0]])


@pytest.mark.parametrize("bits", [2, 4, 5, 8])
def test_codes_are_packed_as_mlx_unpacks_them(bits: int) -> None:
    codes = np.random.default_rng(bits).integers(0, 1 << bits, (3, 96), dtype=np.uint8)
    ones = mx.ones((3, 3))
    found = mx.dequantize(mx.array(pack(codes, bits)), ones, 0 * ones, group_size=32, bits=bits)
    np.testing.assert_array_equal(np.array(found), codes)


@pytest.mark.slow
def test_a_real_model_answers_as_on_the_reference(smollm2_path: Path) -> None:
    tokens = [504, 3575, 282, 4649, 314, 7042, 30]
    found, wanted = (
        load_decoder(smollm2_path, device=name).logits(tokens) for name in ("metal", "reference")
    )
    assert error_of(found, wanted) < TOLERANCE


@pytest.mark.parametrize("architecture", ["llama", "phi3", "mamba2", "gpt-oss"])
def test_a_model_runs_in_other_threads_than_the_one_that_loads_it(architecture: str, tmp_path: Path) -> None:
    path = model(tmp_path, architecture)
    wanted = load_decoder(path, device="metal").logits(TOKENS)
    with ThreadPoolExecutor(1) as loading, ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as another:
        decoder = loading.submit(load_decoder, path, device="metal").result()
        first = one.submit(decoder.prefill, TOKENS[:-1]).result()
        last = another.submit(decoder.decode, TOKENS[-1]).result()
        loading.submit(decoder.close).result()
    np.testing.assert_allclose(np.stack([first, last]), wanted[-2:], rtol=1e-3, atol=1e-3)


def test_an_engine_answers_several_at_once_as_one_after_the_other(tmp_path: Path, tiny_path: Path) -> None:
    config = GenerationConfig(max_tokens=12, seed=3, ignore_eos=True)
    with Engine(tmp_path / "store", "metal") as engine, ThreadPoolExecutor(3) as callers:
        engine.import_model(tiny_path, "tiny")
        alone = [engine.generate("tiny", text, config).tokens for text in ("Hello", "World", "Hello you")]
        texts = ("Hello", "World", "Hello you")
        together = [callers.submit(engine.generate, "tiny", text, config) for text in texts]
        assert [each.result().tokens for each in together] == alone


def test_keys_and_values_may_take_half_the_memory(tmp_path: Path) -> None:
    path = model(tmp_path, "gemma2")
    wanted = load_decoder(path, device="metal", kv_type=KvType.F32).logits(TOKENS)
    found = load_decoder(path, device="metal", kv_type=KvType.F16).logits(TOKENS)
    assert 0 < error_of(found, wanted) < 1e-5


@pytest.mark.parametrize("window", [None, 1, 100])
def test_rows_see_their_window_and_no_more(window: int | None) -> None:
    from rase_models.backends.base import Rows

    sequences, positions = np.array([0, 1, 1, 2], np.int32), np.array([70, 0, 1, 200], np.int32)
    table = np.arange(3 * 4, dtype=np.int32).reshape(3, 4)
    rows = Rows(sequences, positions, positions, positions, table[None])
    for group in groups_of(rows):
        seen = Seen(window_of(group, table, window))
        visible, blocks = np.array(seen.visible), np.array(seen.blocks)
        bounds = np.array(seen.bounds).reshape(*group.rows.shape, 2)
        for index, sequence in enumerate(group.sequences):
            first = np.flatnonzero(table[sequence] == blocks[index, 0])[0] * 64
            for row, position in enumerate(group.positions[index]):
                wanted = np.arange(max(0, position + 1 - (window or 10**6)), position + 1)
                np.testing.assert_array_equal(np.flatnonzero(visible[index, 0, row]) + first, wanted)
                np.testing.assert_array_equal(bounds[index, row] + first, wanted[[0, -1]])


def test_it_is_checked_by_computing_and_says_what_computes() -> None:
    backend = load_backend("metal")
    assert "mlx" in check_backend(backend)
    assert backend.is_stand_in is not device.has_gpu()


@pytest.mark.skipif(device.has_gpu(), reason="there is an Apple GPU")
def test_auto_passes_by_what_stands_in_for_a_gpu() -> None:
    from rase_core.device import DevicePreference

    assert choose_among(DevicePreference.AUTO.candidates(), BACKENDS) == "cpu"


def remembered(runner: MetalRunner) -> list[object]:
    """Return all caches and, of every layer that has any, the states of all slots."""
    return [*runner._cached(), *(mx.stack(states) for states in runner._states)]


@pytest.mark.parametrize("architecture", ["llama", "mamba2"])
def test_a_run_that_fails_while_it_is_described_leaves_caches_as_they_were(
    architecture: str, tmp_path: Path
) -> None:
    program = build_program(open_gguf(model(tmp_path, architecture)))
    broken = replace(program, ops=(*program.ops, Add("logits", "logits", "nowhere")))
    wanted, decoder = (load_decoder(tmp_path / "model.gguf", device="metal") for _ in range(2))
    runner = decoder._runner
    for each in (wanted, decoder):
        step(each, (each.new_sequence(), 0, TOKENS))
    sequence = decoder.new_sequence()
    assert isinstance(runner, MetalRunner)
    before = [np.array(array) for array in remembered(runner)]
    runner._program = broken
    with pytest.raises(KeyError):
        step(decoder, (sequence, 0, TOKENS))
    for array, known in zip(map(np.array, remembered(runner)), before, strict=True):
        np.testing.assert_array_equal(array[: len(known)], known)
        assert not array[len(known) :].any()  # room that was made for the new sequence
    runner._program = program
    decoder.release(sequence)
    found, alone = (step(each, (1, len(TOKENS), [7])) for each in (decoder, wanted))
    np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize("architecture", ["olmoe", "llama4", "gpt-oss"])
def test_many_rows_through_experts_are_as_one_after_the_other(architecture: str, tmp_path: Path) -> None:
    path, tokens = model(tmp_path, architecture), [*TOKENS, *reversed(TOKENS)] * 4
    decoder = load_decoder(path, device="metal")
    wanted = [np.asarray(decoder.prefill(tokens[:1])), *(np.asarray(decoder.decode(t)) for t in tokens[1:])]
    assert error_of(load_decoder(path, device="metal").logits(tokens), np.stack(wanted)) < TOLERANCE


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("architecture", ["llama", "gemma3", "gpt2", "qwen35"])
def test_the_types_of_a_gpu_come_near_the_reference(architecture: str, name: str, tmp_path: Path) -> None:
    metadata, tensors = sketch(architecture)
    halves = {name: array.astype(np.float16) if array.ndim > 1 else array for name, array in tensors.items()}
    file = open_gguf(write_gguf(tmp_path / "model.gguf", architecture, metadata, halves))
    backend = MetalBackend(device.Device(is_gpu=False, dtype=getattr(mx, name)))
    found = load_on(backend, file, kv_type=KvType.F16).logits(TOKENS)
    assert error_of(found, load_decoder(tmp_path / "model.gguf", device="reference").logits(TOKENS)) < 1e-2


@pytest.mark.parametrize("architecture", ["llama", "gpt-oss", "gemma4", "mamba2"])
def test_a_step_is_described_as_a_whole_and_evaluated_once(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder, evaluated = load_decoder(model(tmp_path, architecture), device="metal"), []
    decoder.prefill(TOKENS)

    def evaluate(logits: object, *others: object) -> None:
        mx.export_to_dot(str(tmp_path / "graph.dot"), logits)
        evaluated.append((tmp_path / "graph.dot").read_text().count("Matmul"))
        original(logits, *others)

    original = mx.eval
    monkeypatch.setattr(mx, "eval", evaluate)
    decoder.decode(7)
    runner = decoder._runner
    assert isinstance(runner, MetalRunner)
    products = sum(isinstance(op, Linear) for op in runner._program.ops)
    assert [count >= products for count in evaluated] == [True]


@pytest.mark.parametrize(
    "activation",
    [
        activation if activation in QUICK else pytest.param(activation, marks=pytest.mark.slow)
        for activation in PLAIN_GATES
    ],
)
def test_what_is_fused_for_a_gpu_is_as_one_operation_after_the_other(activation: Activation) -> None:
    if shutil.which("g++") is None:
        pytest.skip("MLX compiles with g++ on a CPU")
    gate, up = (mx.array(np.random.default_rng(seed).normal(size=(3, 40)) * 4) for seed in (1, 2))
    plain = PLAIN_GATES[activation]
    for given in ((gate, up), (gate[:, :1], up)):
        found = np.array(mx.compile(plain, shapeless=True)(*given))
        np.testing.assert_allclose(found, np.array(plain(*given)), rtol=1e-6, atol=1e-6)


def test_mlx_is_told_how_much_it_may_take_and_keep() -> None:
    limit = 1 << 33
    before = mx.set_memory_limit(limit), mx.set_cache_limit(0)
    device.Device(is_gpu=True, dtype=mx.float32, limit=limit).bound()
    assert (mx.set_memory_limit(before[0]), mx.set_cache_limit(before[1])) == (limit, limit // 8)


def limited(nbytes: int) -> MetalBackend:
    """Return a backend that may take so much more memory than is taken."""
    return MetalBackend(device.Device(False, mx.float32, limit=mx.get_active_memory() + nbytes))


def test_weights_that_are_more_than_the_device_should_take_are_refused_with_the_numbers(
    tmp_path: Path,
) -> None:
    file = open_gguf(model(tmp_path, "llama"))
    gc.collect()
    needs = limited(1 << 30).memory_needs(build_program(file), file.tensors)
    needed = needs.weights
    assert needs.free == 1 << 30
    with pytest.raises(DeviceOutOfMemory, match=r"the weights of .* take .*B beside .*B in use; .*B may be"):
        load_on(limited(needed // 2), file)
    gc.collect()
    load_on(limited(needed), file)


def test_keys_and_values_that_are_more_than_the_device_should_take_are_refused(tmp_path: Path) -> None:
    file = open_gguf(model(tmp_path, "llama"))
    program = build_program(file)
    gc.collect()
    needs = MetalBackend().memory_needs(program, file.tensors).weights
    backend = limited(needs + 8 * MetalBackend().block_nbytes(program))
    runner = backend.load(program, file.weights())
    runner.reserve(0, 2)
    with pytest.raises(DeviceOutOfMemory, match="keys and values of a layer take"):
        runner.reserve(0, 64)
    assert [cache.keys.shape[0] for cache in runner._caches] == [2, 2]


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "mpt", "gpt-oss"])
def test_rows_attend_in_pieces_where_there_would_be_too_many_scores(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tokens = model(tmp_path, architecture), TOKENS * 3
    wanted = load_decoder(path, device="metal").logits(tokens)
    monkeypatch.setattr(attention, "_MOST_SCORES", 1000)
    found = load_decoder(path, device="metal").logits(tokens)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(device.has_gpu(), reason="there is an Apple GPU")
def test_kernels_that_mlx_refuses_are_done_without(caplog: pytest.LogCaptureFixture) -> None:
    refused = device.Device(is_gpu=False, dtype=mx.float32, make_kernel=mx.fast.metal_kernel)
    assert not refused.reads_blocks(GgmlType.Q6_K)
    assert refused.narrowing(mx.float16).make_kernel is None
    assert len(caplog.messages) == 2
    assert all("No Metal back-end" in message for message in caplog.messages)


def test_faults_of_mlx_are_named() -> None:
    with pytest.raises(DeviceOutOfMemory, match="Unable to allocate"), device.faults():
        raise RuntimeError("[malloc] Unable to allocate 99 bytes.")
    with pytest.raises(BackendFailure, match="there is no stream"), device.faults():
        raise RuntimeError("there is no stream")
