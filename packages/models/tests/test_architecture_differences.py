"""What each architecture makes of its file: every one builds, and its own ways are in its Program."""

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.errors import InvalidGguf
from rase_models.architectures import supported_architectures
from rase_models.program import (
    Activate,
    Activation,
    Add,
    Attention,
    Embed,
    GatedActivation,
    LayerNorm,
    Linear,
    Op,
    Program,
    RmsNorm,
    RopePairing,
    Rotate,
    SoftCap,
    TensorSlice,
)
from rase_models.testing_sketches import (
    HEADS,
    INNER,
    KEYS,
    KV_HEADS,
    LENGTH,
    QUERIES,
    VOCAB,
    WIDTH,
)

Metadata = dict[str, object]
Tensors = dict[str, NDArray[np.generic]]
T = TypeVar("T", bound=Op)

LAYERS = 2

ADJACENT = (
    "bailingmoe3",
    *("arcee", "arctic", "baichuan", "bailingmoe", "chatglm", "cohere2", "cohere2moe", "command-r", "deci"),
    *("deepseek", "deepseek2", "deepseek32", "ernie4_5", "ernie4_5-moe", "glm-dsa", "glm4", "granite"),
    *("granite_swa", "granitehybrid", "granitemoe", "internlm2", "llama", "llama4", "maincoder", "minicpm"),
    *("mistral3", "mistral4", "muse-glimmer", "nanbeige", "olmo", "plm", "smollm3", "xverse"),
)


UNTURNED = (
    *("arwkv7", "bloom", "gpt2", "jais", "jamba", "kimi-linear", "mamba", "mamba2", "mpt", "nemotron_h"),
    *("nemotron_h_moe", "refact", "rwkv6", "rwkv6qwen2", "rwkv7", "starcoder"),
)


def zeros(*shape: int) -> NDArray[np.float32]:
    return np.zeros(shape, np.float32)


Build = Callable[..., Program]


def ops_of(program: Program, kind: type[T]) -> list[T]:
    return [op for op in program.ops if isinstance(op, kind)]


def head(program: Program) -> Linear:
    last = program.ops[-1]
    assert isinstance(last, Linear)
    return last


def windows(program: Program) -> list[int | None]:
    return [op.window for op in ops_of(program, Attention)]


def turned_layers(program: Program) -> list[int]:
    """Return the layers whose queries and keys turn."""
    turned, layers = False, []
    for op in program.ops:
        turned = turned or isinstance(op, Rotate)
        if isinstance(op, Attention):
            layers += [op.layer] if turned else []
            turned = False
    return layers


@pytest.mark.parametrize("architecture", supported_architectures())
def test_every_architecture_builds_from_the_tensors_that_it_needs(build: Build, architecture: str) -> None:
    program = build(architecture)
    assert (program.architecture, program.vocab_size, program.context_length) == (architecture, VOCAB, 100)
    assert len(program.kv_layers) == len(ops_of(program, Attention))
    mixing = LAYERS // 2 if architecture.startswith(("deci", "nemotron_h")) else LAYERS
    assert len(program.kv_layers) + len(program.state_sizes) >= mixing
    last = program.ops[-1]
    assert (last.out if hasattr(last, "out") else last.x) == "logits" and program.buffers["logits"] == VOCAB


@pytest.mark.parametrize("architecture", supported_architectures())
def test_every_buffer_is_written_before_it_is_read_and_has_one_width(build: Build, architecture: str) -> None:
    program = build(architecture)
    written: set[str] = set()
    for op in program.ops:
        fields = {"x", "y", "q", "k", "v", "gate", "up"} - set(op.TENSORS)
        inputs = {getattr(op, name, None) for name in fields} - {None}
        assert inputs <= written, op
        written.add(op.out if hasattr(op, "out") else op.x)
    assert written == set(program.buffers)


def test_each_architecture_turns_its_own_pairs(build: Build) -> None:
    turns = {name: ops_of(build(name), Rotate) for name in supported_architectures()}
    assert not any(turns.pop(name) for name in UNTURNED)
    pairings = {name: {op.rope.pairing for op in ops} for name, ops in turns.items()}
    for name, pairing in pairings.items():
        assert pairing == {RopePairing.ADJACENT if name in ADJACENT else RopePairing.HALVES}, name


@pytest.mark.parametrize(
    "architecture, metadata, expected",
    [
        ("cohere2", {}, [8, 8, 8, None]),
        ("gemma2", {}, [4096, None, 4096, None]),
        ("gemma4", {}, [8, None, 8, None]),
        ("llama4", {}, [8192, 8192, 8192, None]),
        ("llama4", {"attention.sliding_window": 0}, [None] * 4),
        ("olmo2", {"attention.sliding_window": 16}, [16, 16, 16, None]),
        ("olmo2", {}, [None] * 4),
        ("exaone4", {"attention.sliding_window": 16}, [None] * 4),
        ("phi3", {"attention.sliding_window": 16}, [16] * 4),
    ],
)
def test_each_architecture_has_its_own_windows(
    build: Build, architecture: str, metadata: Metadata, expected: list[int | None]
) -> None:
    assert windows(build(architecture, metadata, layers=4)) == expected


def test_the_32b_of_exaone4_turns_only_where_it_sees_a_window(build: Build) -> None:
    program = build("exaone4", layers=64)
    assert windows(program) == [4096, 4096, 4096, None] * 16
    assert turned_layers(program) == [layer for layer in range(64) if layer % 4 != 3]


@pytest.mark.parametrize("architecture", ["cohere2", "smollm3"])
def test_every_fourth_layer_of_some_knows_no_positions(build: Build, architecture: str) -> None:
    assert turned_layers(build(architecture, layers=8)) == [0, 1, 2, 4, 5, 6]


def test_a_granite_may_say_that_it_knows_no_positions(build: Build) -> None:
    assert turned_layers(build("granite")) == [0, 1]
    assert not turned_layers(build("granite", {"rope.scaling.finetuned": False}))


@pytest.mark.parametrize("architecture", ["cohere2", "command-r", "falcon"])
def test_side_by_side_parts_read_one_norm(build: Build, architecture: str) -> None:
    program = build(architecture)
    assert len(ops_of(program, LayerNorm)) == LAYERS + 1
    assert not ops_of(program, RmsNorm)


def test_the_40b_of_falcon_has_a_norm_for_attention_alone(build: Build) -> None:
    name = "blk.0.attn_norm_2.weight"
    program = build("falcon", tensors={name: zeros(WIDTH)})
    norm = next(op for op in ops_of(program, LayerNorm) if op.weight == name)
    query = next(op for op in ops_of(program, Linear) if op.out == "q")
    up = next(op for op in ops_of(program, Linear) if op.out == "up")
    assert query.x == norm.out != up.x == "normed"


def test_merged_matrices_are_used_in_parts(build: Build) -> None:
    program = build("phi3", tensors={"blk.0.attn_qkv.bias": zeros(QUERIES + 2 * KEYS)})
    linears = {op.out: op for op in reversed(ops_of(program, Linear))}
    parts = [program.slices[linears[out].weight] for out in ("q", "k", "v", "gate", "up")]
    qkv, up = "blk.0.attn_qkv.weight", "blk.0.ffn_up.weight"
    assert parts[:3] == [TensorSlice(qkv, 0, 64), TensorSlice(qkv, 64, 96), TensorSlice(qkv, 96, 128)]
    assert parts[3:] == [TensorSlice(up, 0, INNER), TensorSlice(up, INNER, 2 * INNER)]
    bias = linears["k"].bias
    assert bias and program.slices[bias] == TensorSlice("blk.0.attn_qkv.bias", 64, 96)
    assert {qkv, up, "blk.0.attn_qkv.bias"} <= program.tensors
    assert not program.tensors & set(program.slices)


def test_gpt2_adds_learned_positions(build: Build) -> None:
    tokens, positions = ops_of(build("gpt2"), Embed)
    assert (positions.weight, positions.by_position) == ("position_embd.weight", True)
    assert not tokens.by_position
    assert ops_of(build("gpt2"), Add)[0] == Add(tokens.out, tokens.out, positions.out)
    assert ops_of(build("gpt2"), Activate)[0].activation is Activation.GELU_TANH


def test_granite_and_minicpm_scale_what_they_add(build: Build) -> None:
    scales = {"embedding_scale": 3.0, "residual_scale": 0.25, "attention.scale": 0.125}
    biased = {"blk.0.attn_output.bias": zeros(WIDTH)}
    granite = build("granite", scales, biased)
    output = next(op for op in ops_of(granite, Linear) if op.weight == "blk.0.attn_output.weight")
    assert (output.scale, output.bias_scale) == (0.25, 0.25)
    assert ops_of(granite, Embed)[0].scale == 3.0
    assert ops_of(granite, Attention)[0].scale == 0.125
    assert head(granite).scale == 1 / 8
    minicpm = build("minicpm")
    assert ops_of(minicpm, Embed)[0].scale == 12.0
    assert head(minicpm).scale == 256 / WIDTH
    down = next(op for op in ops_of(minicpm, Linear) if op.weight == "blk.0.ffn_down.weight")
    assert down.scale == pytest.approx(1.4 / math.sqrt(2))


def test_gemma2_caps_scores_and_logits(build: Build) -> None:
    program = build("gemma2", {"attn_logit_softcapping": 20.0})
    assert {op.soft_cap for op in ops_of(program, Attention)} == {20.0}
    assert program.ops[-1] == SoftCap("logits", 30.0)


def test_norms_of_heads_work_on_what_they_should(build: Build) -> None:
    own = {f"blk.0.attn_{kind}_norm.weight": zeros(n, LENGTH) for kind, n in (("q", HEADS), ("k", KV_HEADS))}
    first = next(op for op in ops_of(build("stablelm", tensors=own), LayerNorm) if op.out == "q")
    assert (first.heads, first.shared) == (HEADS, False)
    together = next(op for op in ops_of(build("olmo2"), RmsNorm) if op.out == "q")
    assert (together.heads, together.shared) == (1, True)
    after = [type(op) for op in build("hunyuan-dense").ops if "q" in (getattr(op, "x", ""),)]
    assert after[:2] == [Rotate, RmsNorm]


def test_the_12b_of_stablelm_has_no_norm_before_its_feed_forward_network(build: Build) -> None:
    program = build("stablelm", without=[f"blk.{layer}.ffn_norm.weight" for layer in range(LAYERS)])
    assert len(ops_of(program, LayerNorm)) == LAYERS + 1


def test_a_ministrals_queries_grow_beyond_its_first_context(build: Build) -> None:
    metadata = {"attention.temperature_scale": 0.1, "rope.scaling.original_context_length": 64}
    query, key = ops_of(build("mistral3", metadata), Rotate)[:2]
    assert query.rope.growth == pytest.approx(0.1)
    assert (query.rope.growth_length, key.rope.growth) == (64, 0.0)


@pytest.mark.parametrize("context, factor", [(None, 4.0), (65, 4.0), (64, 2.0), (1, 2.0)])
def test_phi3_divides_its_frequencies_by_the_context_that_is_used(
    build: Build, context: int | None, factor: float
) -> None:
    factors = {"rope_factors_short.weight": zeros(8) + 2, "rope_factors_long.weight": zeros(8) + 4}
    metadata = {"rope.scaling.original_context_length": 64, "rope.scaling.attn_factor": 1.5}
    rope = ops_of(build("phi3", metadata, factors, context_length=context), Rotate)[0].rope
    assert rope.frequencies[0] == 1 / factor
    assert rope.magnitude == 1.5


def test_a_glm4_with_positions_of_several_parts_turns_halves(build: Build) -> None:
    program = build("glm4", {"rope.dimension_sections": [2, 1, 1, 0]})
    assert ops_of(program, Rotate)[0].rope.pairing is RopePairing.HALVES


def test_the_stretching_of_a_hunyuan_must_be_in_its_base(build: Build) -> None:
    with pytest.raises(InvalidGguf, match=r"hunyuan-dense.rope.scaling.alpha"):
        build("hunyuan-dense", {"rope.scaling.alpha": 1000.0})


def gemma3_layers(program: Program) -> list[tuple[int | None, float]]:
    """Return the window and the slowest frequency of each layer."""
    windows = [op.window for op in ops_of(program, Attention)]
    return list(zip(windows, [op.rope.frequencies[-1] for op in ops_of(program, Rotate)[::2]], strict=True))


def test_gemma3_scales_its_embedding_and_gates_by_gelu(build: Build) -> None:
    program = build("gemma3")
    assert ops_of(program, Embed)[0].scale == math.sqrt(WIDTH)
    assert ops_of(program, GatedActivation)[0].activation is Activation.GELU_TANH


def test_gemma3_sees_a_window_with_another_base_in_most_layers(build: Build) -> None:
    metadata = {"attention.sliding_window": 8, "attention.sliding_window_pattern": 2, "rope.freq_base": 1e6}
    local, whole = gemma3_layers(build("gemma3", metadata=metadata))
    assert (local[0], whole[0]) == (8, None)
    assert (local[1], whole[1]) == pytest.approx((1e4**-0.875, 1e6**-0.875))


def test_gemma3_stretches_only_the_layers_that_see_everything(build: Build) -> None:
    metadata = {
        "attention.sliding_window": 8,
        "attention.sliding_window_pattern": [True, False],
        "rope.freq_base": 1e6,
        "rope.scaling.type": "linear",
        "rope.scaling.factor": 8.0,
    }
    local, whole = gemma3_layers(build("gemma3", metadata=metadata))
    assert (local[0], whole[0]) == (8, None)
    assert (local[1], whole[1]) == pytest.approx((1e4**-0.875, 1e6**-0.875 / 8))


def test_gemma3_repeats_a_period_of_six_layers(build: Build) -> None:
    program = build("gemma3", metadata={"attention.sliding_window": 8}, layers=12)
    assert [window for window, _ in gemma3_layers(program)] == [8, 8, 8, 8, 8, None] * 2


@pytest.mark.parametrize("layers, scale", [(61, 32**-0.5), (62, (WIDTH / HEADS) ** -0.5)])
def test_only_the_27b_of_gemma3_scales_by_its_embedding(build: Build, layers: int, scale: float) -> None:
    longer = {
        "attn_q": (HEADS * 32, WIDTH),
        "attn_k": (KV_HEADS * 32, WIDTH),
        "attn_q_norm": (32,),
        "attn_k_norm": (32,),
    }
    tensors = {
        f"blk.{layer}.{name}.weight": zeros(*shape)
        for layer in range(layers)
        for name, shape in longer.items()
    }
    program = build("gemma3", metadata={"attention.key_length": 32}, tensors=tensors, layers=layers)
    assert ops_of(program, Attention)[0].scale == pytest.approx(scale)


def test_gemma3_without_a_window_has_one_kind_of_layer(build: Build) -> None:
    assert {window for window, _ in gemma3_layers(build("gemma3"))} == {None}


@pytest.mark.parametrize(
    "key, value",
    [
        ("attention.sliding_window_pattern", [True, False, True]),
        ("attention.sliding_window_pattern", ["yes", "no"]),
        ("final_logit_softcapping", math.inf),
        ("rope.freq_base_swa", -3.0),
    ],
)
def test_gemma3_names_what_it_cannot_use(build: Build, key: str, value: object) -> None:
    with pytest.raises(InvalidGguf, match=f"metadata 'gemma3.{key}': expected"):
        build("gemma3", metadata={"attention.sliding_window": 8, key: value})


def test_the_last_layers_of_a_gemma4_may_read_the_keys_of_earlier_ones(build: Build) -> None:
    attentions = ops_of(build("gemma4", {"attention.shared_kv_layers": 2}, layers=6), Attention)
    assert [op.layer for op in attentions] == [0, 1, 2, 3, 2, 3]
    assert [op.k is None and op.v is None for op in attentions] == [False] * 4 + [True] * 2


def test_layers_of_a_gemma4_without_a_kind_to_share_with_are_refused(build: Build) -> None:
    with pytest.raises(InvalidGguf, match=r"shared_kv_layers.*no keys for layer 1 to share"):
        build("gemma4", {"attention.shared_kv_layers": 1})


def test_layers_of_a_gemma4_that_share_keys_have_as_many_heads_of_them(build: Build) -> None:
    metadata = {"attention.shared_kv_layers": 2, "attention.head_count_kv": [KV_HEADS] * 4 + [HEADS] * 2}
    with pytest.raises(InvalidGguf, match=rf"share.*_kv={KV_HEADS}.*_kv={HEADS}"):
        build("gemma4", metadata, layers=6)


def test_only_the_largest_baichuan_falls_with_distance(build: Build) -> None:
    turned, fallen = (ops_of(build("baichuan", layers=layers), Attention)[0] for layers in (2, 40))
    assert (turned.slopes, fallen.slopes) == ((), (2**-2, 2**-4, 2**-6, 2**-8))


def test_slopes_of_more_heads_than_a_power_of_two_lie_between_the_others(build: Build) -> None:
    metadata: Metadata = {
        "attention.head_count": 6,
        "attention.head_count_kv": 1,
        "attention.key_length": LENGTH,
        "attention.value_length": LENGTH,
    }
    shapes = {
        "q": (6 * LENGTH, WIDTH),
        "k": (LENGTH, WIDTH),
        "v": (LENGTH, WIDTH),
        "output": (WIDTH, 6 * LENGTH),
    }
    tensors = {
        f"blk.{layer}.attn_{name}.weight": zeros(*shape) for layer in (0, 1) for name, shape in shapes.items()
    }
    slopes = ops_of(build("refact", metadata, tensors), Attention)[0].slopes
    assert slopes == (2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3)


def test_delta_rules_in_the_old_order_of_qwen3next_are_refused(build: Build) -> None:
    with pytest.raises(InvalidGguf, match=r"ssm_in.weight.*convert the model again"):
        build("qwen3next", tensors={"blk.1.ssm_in.weight": zeros(4, WIDTH)})
