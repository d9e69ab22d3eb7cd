"""What architectures make of their files whose states are kept channel by channel or key by key."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.errors import InvalidGguf
from rase_models.architectures import build_program
from rase_models.gguf import open_gguf
from rase_models.loading import load_decoder
from rase_models.program import (
    AddDots,
    Attention,
    KeyedScan,
    MixParts,
    MoeFfn,
    Program,
    Rotate,
    Scale,
    SelectiveScan,
    Shift,
    Sparsify,
)
from rase_models.testing_sketches import (
    HEADS,
    LENGTH,
    QUERIES,
    SPACE,
    STATE,
    TAPS,
    WIDTH,
    Metadata,
    Tensors,
    sketch,
    write_gguf,
)

Build = Callable[..., Program]
Logits = Callable[..., NDArray[np.float32]]
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture
def logits(tmp_path: Path) -> Logits:
    """Return a function that computes the logits of a sketch of two layers, with other tensors."""

    def compute(architecture: str, tensors: Tensors, metadata: Metadata | None = None) -> NDArray[np.float32]:
        known = sketch(architecture)[0] | (metadata or {})
        path = write_gguf(tmp_path / "model.gguf", architecture, known, tensors)
        return np.asarray(load_decoder(path, "reference").logits(TOKENS))

    return compute


def test_mamba_keeps_rows_and_a_state_for_every_channel(build: Build) -> None:
    program = build("mamba")
    assert program.state_sizes == ((TAPS - 1) * SPACE, SPACE * STATE) * 2
    assert not program.kv_layers
    assert len([op for op in program.ops if isinstance(op, SelectiveScan)]) == 2


def test_falcon_mamba_norms_what_steps_and_states_are_read_from(logits: Logits) -> None:
    tensors = sketch("mamba")[1]
    plain, normed = (logits("mamba", tensors, {"ssm.dt_b_c_rms": flag}) for flag in (False, True))
    assert np.abs(plain - normed).max() > 1e-2
    ones = {
        f"blk.{layer}.ssm_{kind}_norm.weight": np.ones(16, np.float32)
        for layer in (0, 1)
        for kind in ("dt", "b", "c")
    }
    np.testing.assert_allclose(logits("mamba", tensors | ones), normed, rtol=1e-5, atol=1e-5)


def test_jamba_attends_without_positions_and_chooses_experts_where_it_has_them(build: Build) -> None:
    program = build("jamba", layers=4)
    kinds = [type(op) for op in program.ops if isinstance(op, Attention | SelectiveScan | MoeFfn | Rotate)]
    assert kinds == [Attention, SelectiveScan, MoeFfn] * 2
    assert not any(op.normalise for op in program.ops if isinstance(op, MoeFfn))


@pytest.mark.parametrize("architecture", ["jamba", "mamba", "plamo2"])
@pytest.mark.parametrize("key", ["ssm.inner_size", "ssm.state_size", "ssm.conv_kernel", "ssm.time_step_rank"])
def test_impossible_sizes_of_states_are_refused(build: Build, architecture: str, key: str) -> None:
    for value in (0, 3 << 20, 1 << 40):
        with pytest.raises(InvalidGguf):
            build(architecture, {key: value})


def test_rwkv_keeps_two_rows_and_a_matrix_for_every_head(build: Build) -> None:
    for architecture in ("rwkv6", "rwkv7"):
        program = build(architecture)
        assert program.state_sizes == (WIDTH, HEADS * LENGTH * LENGTH, WIDTH) * 2
        assert len([op for op in program.ops if isinstance(op, Shift)]) == 4
    for architecture in ("rwkv6qwen2", "arwkv7"):
        assert build(architecture).state_sizes == (WIDTH, HEADS * LENGTH * LENGTH) * 2


def test_rwkv6_reads_states_before_it_writes_and_rwkv7_corrects_them(build: Build) -> None:
    six, linear, seven = (
        next(op for op in build(name).ops if isinstance(op, KeyedScan))
        for name in ("rwkv6", "rwkv6qwen2", "rwkv7")
    )
    assert (six.reads_before, six.a, six.scale) == (True, None, 1.0)
    assert (linear.reads_before, linear.a, linear.scale) == (False, None, 1 / math.sqrt(LENGTH))
    assert not seven.reads_before and seven.a is not None and seven.b is not None
    assert not any(isinstance(op, AddDots) for op in build("rwkv6qwen2").ops)


def test_rwkv6_in_older_files_has_its_shares_one_by_one(logits: Logits) -> None:
    tensors = sketch("rwkv6")[1]
    want, older = logits("rwkv6", tensors), dict(tensors)
    for layer in range(2):
        fused = older.pop(f"blk.{layer}.time_mix_lerp_fused.weight")
        for kind, share in zip("wkvrg", fused, strict=True):
            older[f"blk.{layer}.time_mix_lerp_{kind}.weight"] = share
    np.testing.assert_allclose(logits("rwkv6", older), want, rtol=1e-5, atol=1e-5)


def test_rwkv6_halves_rows_as_often_as_its_file_says(logits: Logits) -> None:
    tensors = sketch("rwkv6")[1]
    plain, every, never = (logits("rwkv6", tensors, {"rescale_every_n_layers": count}) for count in (0, 1, 3))
    np.testing.assert_array_equal(plain, never)
    assert np.abs(every - plain).max() > 1e-2


def test_heads_that_do_not_fill_rows_are_refused(build: Build) -> None:
    for architecture in ("rwkv6", "rwkv7", "arwkv7", "rwkv6qwen2"):
        for length in (0, 7, WIDTH + 1):
            with pytest.raises(InvalidGguf, match=r"wkv\.head_size"):
                build(architecture, {"wkv.head_size": length})


def test_kimi_attends_to_latents_where_it_has_key_heads_and_knows_no_positions(build: Build) -> None:
    program = build("kimi-linear", layers=4)
    kinds = [type(op) for op in program.ops if isinstance(op, Attention | KeyedScan | Rotate)]
    assert kinds == [Attention, KeyedScan] * 2
    convolved = (TAPS - 1) * QUERIES
    assert program.state_sizes == (convolved, convolved, convolved, QUERIES * LENGTH) * 2
    assert all(op.normalise for op in program.ops if isinstance(op, MoeFfn))


def test_ling3_gates_latent_attention_and_bounds_what_keys_forget(build: Build) -> None:
    program = build("bailingmoe3", layers=4)
    kinds = [type(op) for op in program.ops if isinstance(op, Attention | KeyedScan | Rotate)]
    assert kinds == [Rotate, Rotate, Attention, KeyedScan] * 2
    assert -5.0 in [op.factor for op in program.ops if isinstance(op, Scale)]
    for bound in (0.0, 1.0, -math.inf):
        with pytest.raises(InvalidGguf, match=r"gate_lower_bound': expected a number less than 0"):
            build("bailingmoe3", {"kda.gate_lower_bound": bound})


@pytest.mark.parametrize("bounds", [7.0, [0.0, 7.0]])
@pytest.mark.parametrize("key", ["swiglu_clamp_exp", "swiglu_clamp_shexp"])
def test_ling3_with_bounds_for_what_experts_compute_is_refused(
    build: Build, key: str, bounds: object
) -> None:
    with pytest.raises(InvalidGguf, match=key):
        build("bailingmoe3", {key: bounds})
    assert build("bailingmoe3", {key: [0.0, 0.0]})


def test_plamo2_has_state_spaces_between_attention(build: Build) -> None:
    program = build("plamo2", layers=4)
    assert len(program.kv_layers) == 2
    assert program.state_sizes == ((TAPS - 1) * SPACE, SPACE * STATE) * 2


def test_gemma3n_keeps_few_values_in_its_first_layers(build: Build) -> None:
    def sparse(**metadata: object) -> list[float]:
        program = build("gemma3n", metadata, layers=12)
        return [op.deviations for op in program.ops if isinstance(op, Sparsify)]

    assert sparse() == [pytest.approx(1.644853)] * 10
    assert sparse(activation_sparsity_scale=[2.0, *[-math.inf] * 11]) == [2.0]
    with pytest.raises(InvalidGguf, match=r"activation_sparsity_scale': expected 12 numbers, found 1"):
        sparse(activation_sparsity_scale=[2.0])


def test_gemma3n_shares_the_keys_of_the_last_layers_of_each_kind(build: Build) -> None:
    program = build("gemma3n", {"attention.shared_kv_layers": 3}, layers=6)
    layers = [(op.layer, op.k is not None, op.window) for op in program.ops if isinstance(op, Attention)]
    assert layers == [
        *((0, True, 8), (1, True, None), (2, True, 8)),
        *((1, False, None), (2, False, 8), (1, False, None)),
    ]


def test_gemma3n_predicts_and_corrects_its_streams_in_every_layer(build: Build) -> None:
    program = build("gemma3n")
    mixtures = [(program.buffers[op.x], op.offset) for op in program.ops if isinstance(op, MixParts)]
    assert mixtures == [(4 * WIDTH, 0.0), (WIDTH, 1.0)] * 2
    for metadata in ({"altup.active_idx": 1}, {"altup.num_inputs": 1}, {"altup.num_inputs": 3}):
        with pytest.raises(InvalidGguf):
            build("gemma3n", metadata)


@pytest.mark.parametrize(
    "architecture",
    [
        "arwkv7",
        "bailingmoe3",
        "gemma3n",
        "jamba",
        "kimi-linear",
        "mamba",
        "plamo2",
        "rwkv6",
        "rwkv6qwen2",
        "rwkv7",
    ],
)
def test_tensors_of_another_shape_are_refused(tmp_path: Path, architecture: str) -> None:
    metadata, tensors = sketch(architecture)
    unused = tuple(f"blk.0.time_mix_v{part}.weight" for part in range(3))  # RWKV 7's first layer has them
    for name in tensors.keys() - set(unused):
        shape = tensors[name].shape
        changed = tensors | {name: np.zeros((*shape[:-1], shape[-1] + 1), np.float32)}
        with pytest.raises(InvalidGguf):
            build_program(open_gguf(write_gguf(tmp_path / "model.gguf", architecture, metadata, changed)))
