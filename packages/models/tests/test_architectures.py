"""From metadata and tensor table to a Program: what counts, what is refused, and what comes out."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.errors import EngineError, InvalidGguf, UnsupportedArchitecture, UnsupportedTensorType
from rase_models.architectures import build_program, supported_architectures
from rase_models.architectures.left_out import LEFT_OUT
from rase_models.gguf import open_gguf
from rase_models.program import Attention, Linear, MoeFfn, Op, Program, RmsNorm, SelectOutputs
from rase_models.testing_sketches import write_gguf

Metadata = dict[str, object]
Tensors = dict[str, NDArray[np.generic]]

ABSENT = (0, -1, (1 << 32) - 1, (1 << 64) - 1)
"""What writers put where a model has no such thing."""

VOCAB, WIDTH, HEADS, KV_HEADS, LENGTH, INNER, LAYERS = 48, 32, 4, 2, 8, 64, 2


def zeros(*shape: int) -> NDArray[np.float32]:
    return np.zeros(shape, np.float32)


def sketch(architecture: str, layers: int) -> tuple[Metadata, Tensors]:
    """Return the metadata and tensors of a small model."""
    metadata: Metadata = {
        "context_length": 100,
        "embedding_length": WIDTH,
        "block_count": layers,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-6,
    }
    tensors: Tensors = {"token_embd.weight": zeros(VOCAB, WIDTH), "output_norm.weight": zeros(WIDTH)}
    for layer in range(layers):
        shapes = {
            "attn_norm": (WIDTH,),
            "attn_q": (HEADS * LENGTH, WIDTH),
            "attn_k": (KV_HEADS * LENGTH, WIDTH),
            "attn_v": (KV_HEADS * LENGTH, WIDTH),
            "attn_output": (WIDTH, HEADS * LENGTH),
            "ffn_norm": (WIDTH,),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        } | EXTRA.get(architecture, {})
        tensors |= {f"blk.{layer}.{name}.weight": zeros(*shape) for name, shape in shapes.items()}
    return metadata, tensors


EXTRA: dict[str, dict[str, tuple[int, ...]]] = {
    "qwen3": {"attn_q_norm": (LENGTH,), "attn_k_norm": (LENGTH,)},
    "gemma3": {
        "attn_q_norm": (LENGTH,),
        "attn_k_norm": (LENGTH,),
        "post_attention_norm": (WIDTH,),
        "post_ffw_norm": (WIDTH,),
    },
}


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Program]:
    """Return a function that builds the Program of a sketch after changes to it."""

    def build_changed(
        architecture: str = "llama",
        metadata: Metadata | None = None,
        tensors: Tensors | None = None,
        without: tuple[str, ...] = (),
        layers: int = LAYERS,
    ) -> Program:
        base_metadata, base_tensors = sketch(architecture, layers)
        base_metadata |= metadata or {}
        base_tensors |= tensors or {}
        for name in without:
            base_metadata.pop(name, None)
            base_tensors.pop(name, None)
        path = write_gguf(tmp_path / "model.gguf", architecture, base_metadata, base_tensors)
        return build_program(open_gguf(path))

    return build_changed


Build = Callable[..., Program]
T = TypeVar("T", bound=Op)


def ops_of(program: Program, kind: type[T]) -> list[T]:
    return [op for op in program.ops if isinstance(op, kind)]


def linear(program: Program, weight: str) -> Linear:
    return next(op for op in ops_of(program, Linear) if op.weight == weight)


@pytest.mark.parametrize(
    "architecture, missing",
    [("llama", f"blk.1.{name}.weight") for name in ("attn_norm", "attn_v", "ffn_down", "ffn_norm")]
    + [("llama", "output_norm.weight"), ("llama", "token_embd.weight")]
    + [("qwen3", "blk.1.attn_k_norm.weight"), ("gemma3", "blk.0.post_ffw_norm.weight")],
)
def test_a_missing_tensor_is_named(build: Build, architecture: str, missing: str) -> None:
    with pytest.raises(
        InvalidGguf, match=rf"model.gguf: tensor '{missing}': expected .*, found no such tensor"
    ):
        build(architecture, without=(missing,))


def test_an_embedding_that_is_no_matrix_is_named(build: Build) -> None:
    with pytest.raises(InvalidGguf, match=r"'token_embd.weight': expected 2 dimensions, found shape \[32\]"):
        build(tensors={"token_embd.weight": zeros(WIDTH)})


@pytest.mark.parametrize("tensor", ["blk.0.attn_q.weight", "blk.1.ffn_down.weight", "blk.0.attn_norm.weight"])
def test_a_tensor_of_the_wrong_shape_is_named(build: Build, tensor: str) -> None:
    with pytest.raises(InvalidGguf, match=rf"tensor '{tensor}': expected shape \[.*\], found \[3, 5\]"):
        build(tensors={tensor: zeros(3, 5)})


def test_a_norm_of_a_type_that_no_vector_has_is_named(build: Build) -> None:
    with pytest.raises(
        InvalidGguf, match=r"'blk.0.attn_norm.weight': expected type F32 or F16 or BF16, found I32"
    ):
        build(tensors={"blk.0.attn_norm.weight": np.zeros(WIDTH, np.int32)})


def test_a_matrix_of_a_type_that_cannot_be_computed_with_is_named(build: Build) -> None:
    with pytest.raises(UnsupportedTensorType, match=r"blk.1.ffn_up.weight: unsupported type I8"):
        build(tensors={"blk.1.ffn_up.weight": np.zeros((INNER, WIDTH), np.int8)})


@pytest.mark.parametrize("tensor", ["blk.0.attn_sinks.weight", "blk.2.attn_q.weight", "position_embd.weight"])
def test_a_tensor_that_the_architecture_has_not_is_refused(build: Build, tensor: str) -> None:
    with pytest.raises(InvalidGguf, match=f"tensor '{tensor}': a llama model has none"):
        build(tensors={tensor: zeros(HEADS)})


@pytest.mark.parametrize("tensor", ["blk.0.attn_q.input_scale", "cls.output.weight"])
def test_a_tensor_that_means_nothing_here_may_be_there(build: Build, tensor: str) -> None:
    assert tensor not in build(tensors={tensor: zeros(1)}).tensors


@pytest.mark.parametrize(
    "key",
    [
        "context_length",
        "embedding_length",
        "block_count",
        "feed_forward_length",
        "attention.head_count",
        "attention.layer_norm_rms_epsilon",
    ],
)
def test_a_missing_key_is_named(build: Build, key: str) -> None:
    with pytest.raises(InvalidGguf, match=f"metadata 'llama.{key}': expected .*, found no such key"):
        build(without=(key,))


@pytest.mark.parametrize(
    "key, value",
    [
        ("context_length", "long"),
        ("embedding_length", 31),
        ("embedding_length", 1 << 40),
        ("block_count", 1 << 31),
        ("block_count", 3),
        ("block_count", -7),
        ("feed_forward_length", 1 << 23),
        ("feed_forward_length", [64, 64, 64]),
        ("attention.head_count", 5),
        ("attention.head_count", 1 << 20),
        ("attention.head_count", [4, -2]),
        ("attention.head_count_kv", 3),
        ("attention.head_count_kv", [2, 0]),
        ("attention.key_length", 16),
        ("attention.key_length", 1 << 31),
        ("attention.value_length", 4),
        ("attention.layer_norm_rms_epsilon", math.nan),
        ("attention.layer_norm_rms_epsilon", -1e-5),
        ("attention.scale", math.inf),
        ("attention.causal", False),
        ("attention.causal", "no"),
        *(("rope.dimension_count", absent) for absent in ABSENT),
        ("rope.dimension_count", 7),
        ("rope.dimension_count", 10),
        ("rope.freq_base", 0.0),
        ("rope.freq_base", -1.0),
        ("rope.freq_base", -10000.0),
        ("rope.freq_base", 0.5),
        ("rope.freq_base", math.inf),
        ("rope.scaling.type", "zigzag"),
        ("rope.scaling.type", 3),
        ("rope.scaling.factor", math.nan),
        ("rope.scaling.factor", 1e-45),
    ],
)
def test_a_value_that_cannot_be_is_an_error_that_names_what_is_wrong(
    build: Build, key: str, value: object
) -> None:
    with pytest.raises(InvalidGguf, match=r"metadata 'llama\.|tensor 'blk\.|tensor 'token_embd"):
        build(metadata={key: value})


@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize(
    "key",
    [
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.sliding_window",
        "expert_count",
        "rope.scaling.original_context_length",
    ],
)
def test_a_number_that_stands_for_nothing_takes_the_default(build: Build, key: str, absent: int) -> None:
    full = {
        f"blk.{layer}.attn_{kind}.weight": zeros(HEADS * LENGTH, WIDTH) for layer in (0, 1) for kind in "kv"
    }
    tensors = full if key == "attention.head_count_kv" else {}
    assert build(metadata={key: absent}, tensors=tensors) == build(without=(key,), tensors=tensors)


@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 1 << 60, 2**64 - 1])
def test_a_huge_context_is_cut_to_what_positions_can_hold(build: Build, length: int) -> None:
    assert build(metadata={"context_length": length}).context_length == 2**31 - 1


@pytest.mark.parametrize("length", [0, -1])
def test_a_context_of_nothing_is_refused(build: Build, length: int) -> None:
    with pytest.raises(InvalidGguf, match=rf"from 1 to 18446744073709551615, found {length}"):
        build(metadata={"context_length": length})


def test_head_counts_may_differ_from_layer_to_layer(build: Build) -> None:
    heads = {
        "attention.head_count": [4, 2],
        "attention.head_count_kv": [2, 1],
        "attention.key_length": LENGTH,
    }
    narrow = {
        "blk.1.attn_q.weight": zeros(2 * LENGTH, WIDTH),
        "blk.1.attn_k.weight": zeros(LENGTH, WIDTH),
        "blk.1.attn_v.weight": zeros(LENGTH, WIDTH),
        "blk.1.attn_output.weight": zeros(WIDTH, 2 * LENGTH),
    }
    program = build(metadata=heads, tensors=narrow)
    assert [op.head_count for op in ops_of(program, Attention)] == [4, 2]
    assert [layer.head_count_kv for layer in program.kv_layers] == [2, 1]
    assert [program.buffers[op.q] for op in ops_of(program, Attention)] == [4 * LENGTH, 2 * LENGTH]


def test_keys_and_values_may_differ_in_length(build: Build) -> None:
    lengths = {"attention.key_length": 16, "attention.value_length": 4}
    tensors = {}
    for layer in range(LAYERS):
        tensors[f"blk.{layer}.attn_q.weight"] = zeros(HEADS * 16, WIDTH)
        tensors[f"blk.{layer}.attn_k.weight"] = zeros(KV_HEADS * 16, WIDTH)
        tensors[f"blk.{layer}.attn_v.weight"] = zeros(KV_HEADS * 4, WIDTH)
        tensors[f"blk.{layer}.attn_output.weight"] = zeros(WIDTH, HEADS * 4)
    attention = ops_of(build(metadata=lengths, tensors=tensors), Attention)[0]
    assert (attention.key_length, attention.value_length, attention.scale) == (16, 4, 0.25)


def test_without_an_output_matrix_the_embedding_is_used(build: Build) -> None:
    tied, untied = build(), build(tensors={"output.weight": zeros(VOCAB, WIDTH)})
    assert tied.ops[-1] == linear(tied, "token_embd.weight")
    assert untied.ops[-1] == linear(untied, "output.weight")


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_biases_and_norms_of_queries_count_when_present(build: Build, architecture: str) -> None:
    added = {"blk.0.attn_q.bias": zeros(HEADS * LENGTH), "blk.0.attn_q_norm.weight": zeros(LENGTH)}
    program = build(architecture, tensors=added)
    assert linear(program, "blk.0.attn_q.weight").bias == "blk.0.attn_q.bias"
    norm = next(op for op in ops_of(program, RmsNorm) if op.weight == "blk.0.attn_q_norm.weight")
    assert norm == RmsNorm("q", "q", norm.weight, norm.eps, heads=HEADS)


def test_a_bias_of_the_wrong_length_is_named(build: Build) -> None:
    with pytest.raises(InvalidGguf, match=r"'blk.0.attn_q.bias': expected shape \[32\], found \[5\]"):
        build(tensors={"blk.0.attn_q.bias": zeros(5)})


@pytest.mark.parametrize("architecture, counts", [("llama", True), ("qwen3", True), ("qwen2", False)])
def test_scalars_of_matrices_count_where_the_architecture_has_them(
    build: Build, architecture: str, counts: bool
) -> None:
    scalars = {"blk.0.attn_q.scale": zeros(1) + 0.5, "blk.0.ffn_up.scale": zeros(1) + 3}
    program = build(architecture, tensors=scalars | {"blk.0.ffn_up.bias": zeros(INNER)})
    attention, up = linear(program, "blk.0.attn_q.weight"), linear(program, "blk.0.ffn_up.weight")
    assert (attention.scale, attention.bias_scale) == (0.5, 1.0)
    assert (up.scale, up.bias_scale) == ((3.0, 3.0) if counts else (1.0, 1.0))


def test_a_scalar_that_is_not_a_number_is_named(build: Build) -> None:
    with pytest.raises(InvalidGguf, match=r"'blk.0.attn_q.scale': expected finite numbers, found 1 of 1"):
        build(tensors={"blk.0.attn_q.scale": np.array([math.nan], np.float32)})


def test_a_llama_with_a_window_sees_it_in_every_layer(build: Build) -> None:
    program = build(metadata={"attention.sliding_window": 16})
    assert [op.window for op in ops_of(program, Attention)] == [16, 16]
    assert [layer.window for layer in program.kv_layers] == [16, 16]


def test_only_wanted_rows_go_through_the_end_of_the_last_layer(build: Build) -> None:
    program = build()
    first = next(i for i, op in enumerate(program.ops) if isinstance(op, SelectOutputs))
    before = program.ops[first - 1]
    assert isinstance(before, Attention) and before.layer == LAYERS - 1


def moe_tensors(experts: int) -> Tensors:
    tensors: Tensors = {}
    for layer in range(LAYERS):
        tensors[f"blk.{layer}.ffn_gate_inp.weight"] = zeros(experts, WIDTH)
        tensors[f"blk.{layer}.ffn_gate_exps.weight"] = zeros(experts, INNER, WIDTH)
        tensors[f"blk.{layer}.ffn_up_exps.weight"] = zeros(experts, INNER, WIDTH)
        tensors[f"blk.{layer}.ffn_down_exps.weight"] = zeros(experts, WIDTH, INNER)
    return tensors


DENSE = tuple(f"blk.{layer}.ffn_{kind}.weight" for layer in range(LAYERS) for kind in ("gate", "up", "down"))


def test_a_llama_with_experts_is_mixtral(build: Build) -> None:
    counts = {"expert_count": 4, "expert_used_count": 2}
    op = ops_of(build(metadata=counts, tensors=moe_tensors(4), without=DENSE), MoeFfn)[1]
    assert (op.experts, op.experts_used, op.normalise, op.scale) == (4, 2, True, 1.0)
    assert op.down == "blk.1.ffn_down_exps.weight"


def test_experts_have_scalars_of_their_own(build: Build) -> None:
    tensors = moe_tensors(2) | {"blk.1.ffn_up_exps.scale": np.array([2.0, 3.0], np.float32)}
    counts = {"expert_count": 2, "expert_used_count": 1}
    op = ops_of(build(metadata=counts, tensors=tensors, without=DENSE), MoeFfn)[1]
    assert (op.gate_scales, op.up_scales) == ((), (2.0, 3.0))


@pytest.mark.parametrize(
    "metadata, key",
    [
        ({"expert_count": 4}, "expert_used_count"),
        ({"expert_count": 4, "expert_used_count": 5}, "expert_used_count"),
        ({"expert_count": 4, "expert_used_count": 2, "expert_gating_func": 2}, "expert_gating_func"),
    ],
)
def test_a_choice_of_experts_that_cannot_be_is_named(build: Build, metadata: Metadata, key: str) -> None:
    with pytest.raises(InvalidGguf, match=f"metadata 'llama.{key}': expected"):
        build(metadata=metadata, tensors=moe_tensors(4), without=DENSE)


def test_experts_in_separate_tensors_are_refused_with_the_way_out(build: Build) -> None:
    counts = {"expert_count": 2, "expert_used_count": 1}
    with pytest.raises(InvalidGguf, match=r"'blk.0.ffn_gate.0.weight': .*convert the model again"):
        build(metadata=counts, tensors={"blk.0.ffn_gate.0.weight": zeros(INNER, WIDTH)}, without=DENSE)


def test_an_unknown_architecture_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", "perceptron", {}, {"a": zeros(1)})
    with pytest.raises(UnsupportedArchitecture, match="unsupported architecture 'perceptron'") as caught:
        build_program(open_gguf(path))
    assert caught.value.supported == supported_architectures()
    assert {"llama", "qwen3", "gemma3"} <= set(supported_architectures())


@pytest.mark.parametrize("name", LEFT_OUT)
def test_an_architecture_that_is_left_out_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    path = write_gguf(tmp_path / "model.gguf", name, {}, {"a": zeros(1)})
    with pytest.raises(UnsupportedArchitecture) as caught:
        build_program(open_gguf(path))
    assert caught.value.reason == LEFT_OUT[name]
    assert str(caught.value.advice).startswith(LEFT_OUT[name]) and "llama" in str(caught.value.advice)


def test_nothing_that_runs_is_left_out() -> None:
    assert not set(LEFT_OUT) & set(supported_architectures())


def test_every_error_of_a_file_is_an_engine_error() -> None:
    assert all(
        issubclass(e, EngineError) for e in (InvalidGguf, UnsupportedArchitecture, UnsupportedTensorType)
    )
