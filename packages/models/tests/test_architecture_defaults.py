"""What holds for an architecture where its file does not say, and what files may say in several ways."""

from collections.abc import Callable

import numpy as np
import pytest
from rase_core.errors import InvalidGguf
from rase_models.program import Attention, Linear, MoeFfn, Program, RopePairing, Rotate, Scoring
from rase_models.testing_sketches import EXPERTS, HEADS, INNER, LENGTH, WIDTH, Metadata

Build = Callable[..., Program]
YARN: Metadata = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 4096,
}


def mixtures(program: Program) -> list[MoeFfn]:
    return [op for op in program.ops if isinstance(op, MoeFfn)]


def turns(program: Program) -> list[tuple[int | None, float]]:
    """Return for each layer that turns its window and how fast the second pair of its queries does."""
    found, rope = [], None
    for op in program.ops:
        if isinstance(op, Rotate) and op.x.startswith("q"):
            rope = op.rope
        if isinstance(op, Attention) and rope is not None and any(rope.frequencies):
            found.append((op.window, rope.frequencies[1]))
    return found


def speed(base: float, length: int = LENGTH) -> object:
    return pytest.approx(base ** (-2 / length))


@pytest.mark.parametrize("architecture, window", [("gemma2", 4096), ("gpt-oss", 8), ("spark2_5", 8)])
def test_layers_with_a_window_may_turn_at_a_pace_of_their_own(
    build: Build, architecture: str, window: int
) -> None:
    assert turns(build(architecture)) == [(window, speed(1e4)), (None, speed(1e4))]
    slower = build(architecture, {"rope.freq_base": 1e6, "rope.freq_base_swa": 1e5})
    assert turns(slower) == [(window, speed(1e5)), (None, speed(1e6))]


def test_the_chunks_of_a_llama4_may_turn_at_a_pace_of_their_own(build: Build) -> None:
    program = build("llama4", {"rope.freq_base": 1e6, "rope.freq_base_swa": 1e5}, layers=4)
    assert turns(program) == [(8192, speed(1e5))] * 3


def test_the_layers_of_an_afmoe_that_see_everything_turn_at_the_pace_of_the_file(build: Build) -> None:
    own = {
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e5,
        "attention.sliding_window_pattern": [True, False],
    }
    assert turns(build("afmoe", own)) == [(8, speed(1e5)), (None, speed(1e6))]
    assert turns(build("afmoe", {**own, "attention.sliding_window": 0})) == [(None, speed(1e6))] * 2


@pytest.mark.parametrize("architecture", ["gemma3", "plamo3", "laguna"])
def test_fewer_elements_may_turn_in_layers_with_a_window(build: Build, architecture: str) -> None:
    pattern = {"attention.sliding_window": 8, "attention.sliding_window_pattern": [True, False]}
    program = build(architecture, {**pattern, "rope.dimension_count_swa": LENGTH // 2})
    dimensions = [op.rope.dimensions for op in program.ops if isinstance(op, Rotate)]
    assert dimensions == [LENGTH // 2] * 2 + [LENGTH] * 2


def test_a_ministral_may_have_been_trained_for_its_whole_context_first(build: Build) -> None:
    query = next(
        op for op in build("mistral3", {"attention.temperature_scale": 0.1}).ops if isinstance(op, Rotate)
    )
    assert query.rope.growth_length == 100


def test_yarn_keeps_fewer_fast_pairs_in_grok_than_in_others(build: Build) -> None:
    unsaid, eight, others = (
        build("grok", YARN | said)
        for said in ({}, {"rope.scaling.yarn_beta_fast": 8.0}, {"rope.scaling.yarn_beta_fast": 32.0})
    )
    assert unsaid == eight != others


def test_every_minicpm_turns(build: Build) -> None:
    program = build("minicpm", {"rope.scaling.finetuned": False})
    assert {op.rope.pairing for op in program.ops if isinstance(op, Rotate)} == {RopePairing.ADJACENT}


def test_the_logits_of_both_minicpms_are_scaled_alike(build: Build) -> None:
    scales = [build(name).ops[-1] for name in ("minicpm", "minicpm3")]
    assert [op.scale for op in scales if isinstance(op, Linear)] == [256 / WIDTH] * 2


@pytest.mark.parametrize(
    "layers, vocabulary, scoring",
    [(47, 154_880, Scoring.SIGMOID), (47, 48, Scoring.SOFTMAX), (2, 154_880, Scoring.SOFTMAX)],
)
def test_glm_flash_scores_experts_by_itself_where_its_file_does_not_say(
    build: Build, layers: int, vocabulary: int, scoring: Scoring
) -> None:
    words = {"token_embd.weight": np.zeros((vocabulary, WIDTH), np.float16)}
    assert mixtures(build("deepseek2", tensors=words, layers=layers))[0].scoring is scoring
    said = build("deepseek2", {"expert_gating_func": 1}, words, layers=layers)
    assert mixtures(said)[0].scoring is Scoring.SOFTMAX


def test_experts_may_differ_from_layer_to_layer(build: Build) -> None:
    own: Metadata = {
        "expert_used_count": [0, 1, 0, 3],
        "expert_feed_forward_length": [0, INNER, 0, INNER // 2],
        "feed_forward_length": [0, INNER, 0, INNER // 2],
    }
    narrow = {
        "blk.3.ffn_up_exps.weight": np.zeros((EXPERTS, INNER // 2, WIDTH), np.float32),
        "blk.3.ffn_down_exps.weight": np.zeros((EXPERTS, WIDTH, INNER // 2), np.float32),
    }
    program = build("nemotron_h_moe", own, narrow, layers=4)
    assert [op.experts_used for op in mixtures(program)] == [1, 3]
    for key in ("expert_used_count", "expert_feed_forward_length"):
        with pytest.raises(InvalidGguf, match=rf"{key}': expected|ffn_up_exps"):
            build("nemotron_h_moe", {**own, key: [0, 0, 0, 1]}, narrow, layers=4)


@pytest.mark.parametrize(
    "architecture, metadata, message",
    [
        (
            "deepseek2",
            {"expert_group_count": 4, "expert_group_used_count": 1},
            r"expert_group_used_count': expected groups of 1 that have the 2 experts .*, found 1",
        ),
        ("deepseek2", {"expert_used_count": [2, 5]}, r"expert_used_count': expected a number from 1 to 4"),
        ("deepseek2", {"expert_used_count": [2, 0]}, r"expert_used_count': expected .*, found \[2 0\]"),
        ("gemma4", {"rope.dimension_count_swa": LENGTH - 1}, "dimension_count_swa': expected an even number"),
        ("llama", {"nextn_predict_layers": 2}, "nextn_predict_layers': expected fewer than the 2 layers"),
        ("granite", {"residual_scale": 1e35}, r"residual_scale': expected a number from 1e-30 to 1e\+30"),
        ("hunyuan-dense", {"rope.scaling.alpha": 1000.0}, "no such key in hunyuan-dense, found 1000.0"),
        ("bailingmoe3", {"swiglu_clamp_exp": [0.0, 7.0]}, "found some in 1 of 2 layers"),
        ("apertus", {"xielu.beta": [0.5, float("nan")]}, r"numbers from -1e\+30 to 1e\+30, found nan"),
        ("apertus", {"xielu.beta": [0.5] * 3}, "expected 2 numbers, found 3 of them"),
    ],
)
def test_what_cannot_be_is_told_with_what_was_found(
    build: Build, architecture: str, metadata: Metadata, message: str
) -> None:
    with pytest.raises(InvalidGguf, match=message):
        build(architecture, metadata)


@pytest.mark.parametrize("architecture", ["jais", "minicpm3", "plamo2", "plm"])
def test_heads_without_a_length_are_named(build: Build, architecture: str) -> None:
    lengths = ("attention.key_length", "attention.value_length")
    with pytest.raises(InvalidGguf, match=r"(rope.dimension_count|attention.\w+_length)': expected a number"):
        build(architecture, {"attention.head_count": 0, "attention.head_count_kv": 0}, without=lengths)


def test_a_very_long_value_is_not_told_whole(build: Build) -> None:
    with pytest.raises(InvalidGguf, match=r"rope.scaling.type': expected .*, found 'xxx") as caught:
        build("llama", {"rope.scaling.type": "x" * 100_000})
    assert len(str(caught.value)) < 500


def test_layers_of_a_gemma3n_keep_all_values_or_a_finite_share(build: Build) -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(InvalidGguf, match=f"activation_sparsity_scale': expected .*, found {value}"):
            build("gemma3n", {"activation_sparsity_scale": [value, 1.0]})


@pytest.mark.parametrize("architecture", ["qwen35moe", "qwen3next"])
def test_the_shared_expert_of_a_qwen_is_as_wide_as_its_dense_networks(
    build: Build, architecture: str
) -> None:
    assert build(architecture, without=("expert_shared_feed_forward_length",)) == build(architecture)


def test_an_odd_number_of_elements_cannot_grow(build: Build) -> None:
    odd = LENGTH - 1
    metadata: Metadata = {"attention.key_length": odd, "rope.dimension_count": odd - 1}
    shapes = {"q": HEADS * odd, "k": HEADS // 2 * odd}
    tensors = {
        f"blk.{layer}.attn_{name}.weight": np.zeros((rows, WIDTH), np.float32)
        for layer in range(4)
        for name, rows in shapes.items()
    }
    with pytest.raises(InvalidGguf, match=r"attention.key_length': expected an even number, found 15"):
        build("llama4", metadata, tensors, layers=4)
