"""What layers are made of: gates of attention, sinks, and layers that lack a part or come again."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from rase_core.errors import InvalidGguf
from rase_models.program import Attention, Clamp, GatedActivation, Linear, Program, RmsNorm, Xielu
from rase_models.testing_sketches import HEADS, LENGTH, build_sketch


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Program]:
    """Return a function that builds the Program of a sketch of four layers after changes to it."""
    return partial(build_sketch, tmp_path / "model.gguf", layers=4)


Build = Callable[..., Program]


@pytest.mark.parametrize("architecture, width", [("laguna", HEADS), ("afmoe", HEADS * LENGTH)])
def test_attention_has_a_gate_for_each_head_or_for_each_value(
    build: Build, architecture: str, width: int
) -> None:
    program = build(architecture)
    gates = [op for op in program.ops if isinstance(op, GatedActivation) and op.gate == "attention_gate"]
    assert [program.buffers[op.gate] for op in gates] == [width] * 4


def test_only_layers_with_sinks_have_them(build: Build) -> None:
    program = build("mimo2")
    sinks = [op.sinks for op in program.ops if isinstance(op, Attention)]
    assert sinks == [None, "blk.1.attn_sinks.weight", None, "blk.3.attn_sinks.weight"]


def test_sinks_that_every_layer_needs_are_missed(build: Build) -> None:
    with pytest.raises(InvalidGguf, match=r"'blk.2.attn_sinks.weight': expected"):
        build("granite_swa", without=("blk.2.attn_sinks.weight",))


def test_rows_may_go_through_all_layers_again(build: Build) -> None:
    program = build("nanbeige", {"num_loops": 3, "skip_loop_final_norm": False})
    assert len(program.kv_layers) == 12
    weights = [op.weight for op in program.ops if isinstance(op, RmsNorm)]
    assert weights.count("output_norm.weight") == 3
    unnormed = build("nanbeige", {"num_loops": 3})
    weights = [op.weight for op in unnormed.ops if isinstance(op, RmsNorm)]
    assert weights.count("output_norm.weight") == 1


def test_a_matrix_may_stand_for_attention(build: Build) -> None:
    program = build("deci")
    linears = [op.weight for op in program.ops if isinstance(op, Linear)]
    assert [f"blk.{layer}.attn_output.weight" in linears for layer in range(4)] == [True] * 4
    assert len(program.kv_layers) == 2


def test_layers_may_lack_attention_or_a_network(build: Build) -> None:
    lacking = {
        "attention.head_count": [HEADS, 0, HEADS, HEADS],
        "feed_forward_length": [96, 96, 0, 0],
    }
    feeding = ("ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
    unfed = (f"blk.{layer}.{name}.weight" for layer in (2, 3) for name in feeding)
    without = ("blk.1.attn_norm.weight", "blk.1.attn_output.weight", *unfed)
    linears = [op.weight for op in build("deci", lacking, without=without).ops if isinstance(op, Linear)]
    assert [f"blk.{layer}.attn_output.weight" in linears for layer in range(4)] == [True, False, True, True]
    assert [f"blk.{layer}.ffn_down.weight" in linears for layer in range(4)] == [True, True, False, False]


@pytest.mark.parametrize("pattern", [[True], [True] * 5])
def test_a_pattern_of_windows_for_other_layers_is_refused(build: Build, pattern: list[bool]) -> None:
    with pytest.raises(InvalidGguf, match="sliding_window_pattern': expected 4 bools"):
        build("spark2_5", {"attention.sliding_window_pattern": pattern})


def test_a_pattern_of_windows_may_be_required(build: Build) -> None:
    with pytest.raises(InvalidGguf, match="sliding_window_pattern': expected a number"):
        build("spark2_5", {"attention.sliding_window_pattern": 0})


def test_values_bend_by_numbers_of_the_layer(build: Build) -> None:
    program = build("apertus")
    first, second = [op for op in program.ops if isinstance(op, Xielu)][:2]
    assert first.slope == second.slope == 0.5
    assert first.above == pytest.approx(math.log1p(math.exp(0.7)))
    assert second.above == pytest.approx(math.log1p(math.exp(-0.3)))
    assert first.below == pytest.approx(0.5 + math.log1p(math.exp(0.4)))


@pytest.mark.parametrize("value", [[0.5], [0.5] * 5, [0.5, 0.5, 0.5, math.nan], "much"])
def test_numbers_that_values_cannot_bend_by_are_refused(build: Build, value: object) -> None:
    with pytest.raises(InvalidGguf, match=r"metadata 'xielu.beta': expected"):
        build("apertus", {"xielu.beta": value})


@pytest.mark.parametrize("architecture", ["mpt", "olmo"])
def test_queries_keys_and_values_are_clamped_where_the_file_says_so(build: Build, architecture: str) -> None:
    program = build(architecture, {"attention.clamp_kqv": 8.0})
    clamps = [(op.x, op.limit) for op in program.ops if isinstance(op, Clamp)]
    assert clamps == [(buffer, 8.0) for buffer in "qkv"] * 4
    assert not any(isinstance(op, Clamp) for op in build(architecture).ops)
