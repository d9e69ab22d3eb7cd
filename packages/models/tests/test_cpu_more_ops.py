"""Ops that few architectures have, on the CPU, against the reference backend."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rase_core.errors import BackendFailure
from rase_models.backends.cpu.runner import CpuRunner
from rase_models.gguf import TensorInfo, Weight
from rase_models.gguf.types import GgmlType
from rase_models.program import (
    Activate,
    Activation,
    Attention,
    CopyParts,
    Embed,
    GatedActivation,
    HeadLinear,
    KvLayer,
    LayerNorm,
    Linear,
    Op,
    RmsNorm,
    Rope,
    RopePairing,
    Rotate,
    SoftCap,
    TensorSlice,
)
from rase_models.testing_cases import OpCase, normal, rows_of, weight

few = settings(max_examples=8)
UNGATED = [activation for activation in Activation if activation is not Activation.CLAMPED_SWIGLU]


@few
@given(st.integers(2, 150), st.integers(1, 9), st.booleans())
@example(16, 1, True)
@example(17, 2, False)
def test_rows_are_centred_and_normed(width: int, rows: int, biased: bool) -> None:
    op = LayerNorm("y", "x", "w", "b" if biased else None, 1e-2)
    OpCase(width, [op], {"y": width}, "y", {"w": normal(2, width), "b": normal(3, width)}).check(
        rows_of([(0, rows)])
    )


@few
@given(st.sampled_from([LayerNorm, RmsNorm]), st.integers(1, 4), st.sampled_from([16, 32, 80]), st.booleans())
def test_heads_are_normed_by_one_weight_or_their_own(
    kind: type[LayerNorm | RmsNorm], heads: int, length: int, shared: bool
) -> None:
    weights = {"w": normal(2, *((length,) if shared else (heads, length)))}
    bias = {"bias": None} if kind is LayerNorm else {}
    op = kind(out="x", x="x", weight="w", eps=1e-5, heads=heads, shared=shared, **bias)
    OpCase(heads * length, [op], {}, "x", weights).check(rows_of([(0, 3)]))


@few
@given(st.sampled_from(UNGATED), st.sampled_from([5, 32, 96]), st.integers(1, 9))
def test_values_are_activated_without_a_gate(activation: Activation, width: int, rows: int) -> None:
    ops: list[Op] = [Activate("x", "x", activation), Linear("y", "x", "w")]
    OpCase(width, ops, {"y": 24}, "y", {"w": normal(2, 24, width)}).check(
        rows_of([(0, rows)]), tolerance=1e-4
    )


@few
@given(st.integers(1, 70), st.integers(1, 9), st.floats(0.25, 50, width=32))
def test_values_are_capped_softly(width: int, rows: int, cap: float) -> None:
    OpCase(width, [SoftCap("x", cap)], {}, "x", {}).check(rows_of([(0, rows)]), tolerance=5e-5)


def test_logits_are_capped_where_they_are() -> None:
    case = OpCase(8, [], {}, "x", {})
    case.program = replace(case.program, ops=(*case.program.ops, SoftCap("logits", 0.5)))
    case.check(rows_of([(0, 5)]), tolerance=5e-5)


def test_positions_are_looked_up() -> None:
    op = Embed("y", "w", 0.5, by_position=True)
    OpCase(8, [op], {"y": 24}, "y", {"w": normal(2, 100, 24)}).check(rows_of([(70, 5)]))


@few
@given(st.sampled_from([None, 0.7, 30.0]), st.booleans(), st.sampled_from([None, 40]), st.integers(1, 70))
def test_attention_caps_its_scores_and_loses_weight_to_sinks(
    cap: float | None, sunk: bool, window: int | None, rows: int
) -> None:
    projections = {"q": 64, "k": 32, "v": 32}
    ops: list[Op] = [Linear(name, "x", f"w{name}") for name in projections]
    sinks = "s" if sunk else None
    sizes = (0, 4, 2, 16, 16, 0.25)
    ops.append(Attention("y", "q", "k", "v", *sizes, window=window, soft_cap=cap, sinks=sinks))
    weights = {f"w{name}": normal(ord(name), out, 32, scale=0.3) for name, out in projections.items()}
    weights["s"] = normal(7, 4, scale=3)
    case = OpCase(32, ops, {**projections, "y": 64}, "y", weights, (KvLayer(2, 16, 16, window),))
    case.check(rows_of([(0, 300)]), rows_of([(300, rows)]), tolerance=2e-2)  # the cache holds float16


def test_sinks_are_of_query_heads() -> None:
    ops: list[Op] = [Linear(name, "x", "w") for name in "qkv"]
    ops.append(Attention("y", "q", "k", "v", 0, 2, 2, 16, 16, 0.25, sinks="s"))
    weights = {"w": normal(2, 32, 32), "s": np.array([-100, 1000], np.float32)}
    case = OpCase(32, ops, dict.fromkeys("qkvy", 32), "y", weights, (KvLayer(2, 16, 16),))
    got = case.on_cpu(rows_of([(0, 1)]))[0]
    assert np.abs(got[:16]).max() > 0.1
    assert np.abs(got[16:]).max() == 0


@few
@given(st.integers(1, 20), st.sampled_from([16, 64]), st.booleans())
def test_a_matrix_is_used_in_parts(rows: int, first: int, biased: bool) -> None:
    ops: list[Op] = [
        Linear("gate", "x", "w[0]", "b[0]" if biased else None),
        Linear("up", "x", "w[1]", "b[1]" if biased else None),
        GatedActivation("gate", "gate", "up", Activation.SILU),
    ]
    slices = {
        f"{name}[{part}]": TensorSlice(name, part * first, (part + 1) * first)
        for name in "wb"
        for part in (0, 1)
    }
    weights = {"w": normal(2, 2 * first, 24), "b": normal(3, 2 * first)}
    case = OpCase(24, ops, {"gate": first, "up": first}, "gate", weights, slices=slices)
    case.check(rows_of([(0, rows)]), tolerance=2e-4)


def test_parts_of_vectors_begin_and_end_anywhere() -> None:
    ops: list[Op] = [Linear("a", "x", "v", "b[0]"), Linear("y", "x", "w", "b[1]")]
    ops.append(RmsNorm("y", "y", "n", 1e-6))
    slices = {"b[0]": TensorSlice("b", 0, 5), "b[1]": TensorSlice("b", 5, 29)}
    weights = {"v": normal(2, 5, 24), "w": normal(3, 24, 24), "b": normal(4, 100), "n": normal(5, 24)}
    OpCase(24, ops, {"a": 5, "y": 24}, "y", weights, slices=slices).check(rows_of([(0, 5)]), tolerance=2e-4)


@pytest.mark.parametrize("edges", [(8, 16), (0, 8)])
def test_parts_that_begin_or_end_within_a_group_of_rows_are_refused(edges: tuple[int, int]) -> None:
    slices = {"part": TensorSlice("w", *edges)}
    case = OpCase(8, [Linear("y", "x", "part")], {"y": 8}, "y", {"w": normal(2, 16, 8)}, slices=slices)
    with pytest.raises(BackendFailure, match="take w apart at row 8"):
        case.on_cpu(rows_of([(0, 1)]))


def test_norms_of_all_heads_together_and_after_the_turn_are_not_taken_into_attention() -> None:
    rope = Rope(RopePairing.HALVES, 16, tuple(0.5**i for i in range(8)))
    ops: list[Op] = [Linear(name, "x", f"w{name}") for name in "qkv"]
    ops += [RmsNorm("q", "q", "n", 1e-6), Rotate("q", 2, rope)]
    ops += [Rotate("k", 2, rope), RmsNorm("k", "k", "h", 1e-6, 2)]
    ops.append(Attention("y", "q", "k", "v", 0, 2, 2, 16, 16, 0.25))
    weights = {f"w{name}": normal(ord(name), 32, 32) for name in "qkv"}
    weights |= {"n": normal(8, 32), "h": normal(9, 16)}
    case = OpCase(32, ops, dict.fromkeys("qkvy", 32), "y", weights, (KvLayer(2, 16, 16),))
    case.check(rows_of([(0, 20)]), tolerance=2e-2)


def test_a_rope_grows_with_the_position() -> None:
    rope = Rope(RopePairing.ADJACENT, 16, (1.0,) * 8, 1.5, growth=0.3, growth_length=50)
    OpCase(32, [Rotate("x", 2, rope)], {}, "x", {}).check(rows_of([(45, 60)]))


@few
@given(st.sampled_from(UNGATED), st.sampled_from([5, 64]), st.integers(1, 9))
def test_one_value_may_be_the_gate_of_a_whole_row(activation: Activation, width: int, rows: int) -> None:
    ops: list[Op] = [
        Linear("y", "x", "w"),
        Linear("share", "x", "v"),
        GatedActivation("y", "share", "y", activation),
        Linear("z", "y", "w"),
    ]
    weights = {"w": normal(2, width, width), "v": normal(3, width)}
    case = OpCase(width, ops, {"y": width, "share": 1, "z": width}, "z", weights)
    case.check(rows_of([(0, rows)]), tolerance=3e-4)


@few
@given(st.integers(1, 5), st.sampled_from([1, 5, 16, 24, 48]), st.integers(1, 9))
def test_every_part_of_a_row_may_have_a_gate(parts: int, length: int, rows: int) -> None:
    width = parts * length
    ops: list[Op] = [
        Linear("y", "x", "w"),
        Linear("gates", "x", "v"),
        GatedActivation("y", "gates", "y", Activation.SIGMOID),
        Linear("z", "y", "w"),
    ]
    weights = {"w": normal(2, width, width), "v": normal(3, parts, width)}
    case = OpCase(width, ops, {"y": width, "gates": parts, "z": width}, "z", weights)
    case.check(rows_of([(0, rows)]), tolerance=3e-4)


@few
@given(st.integers(1, 5), st.sampled_from([16, 48, 64]), st.sampled_from([16, 32]), st.integers(1, 20))
def test_every_head_has_a_matrix_of_its_own(heads: int, width: int, out: int, rows: int) -> None:
    shape = (heads, out, width) if heads > 1 else (out, width)
    op = HeadLinear("y", "x", "w", heads)
    OpCase(heads * width, [op], {"y": heads * out}, "y", {"w": normal(2, *shape)}).check(rows_of([(0, rows)]))


def test_heads_that_fill_no_groups_of_outputs_are_refused() -> None:
    case = OpCase(16, [HeadLinear("y", "x", "w", 1)], {"y": 8}, "y", {"w": normal(2, 8, 16)})
    with pytest.raises(BackendFailure, match="heads of 16 values into 8"):
        case.on_cpu(rows_of([(0, 1)]))


@few
@given(st.integers(1, 3), st.integers(1, 40), st.integers(0, 20), st.integers(0, 3), st.booleans())
def test_parts_are_copied_to_their_places(
    parts: int, width: int, first: int, out_first: int, shared: bool
) -> None:
    length = width + first
    whole = length if shared else parts * length
    out = width + out_first + 2
    ops: list[Op] = [
        Linear("y", "x", "w"),
        CopyParts("y", "x", parts, out, width, first, out_first, shared),
        Linear("z", "y", "v"),
    ]
    weights = {"w": normal(2, parts * out, whole), "v": normal(3, 16, parts * out)}
    case = OpCase(whole, ops, {"y": parts * out, "z": 16}, "z", weights)
    case.check(rows_of([(0, 5)]), tolerance=2e-4)


@pytest.mark.parametrize("rows", [1, 2, 9, 20])
def test_heads_have_quantised_matrices_too(rows: int) -> None:
    import gguf

    heads, width, out = 3, 64, 48
    values = normal(2, heads, out, width)
    packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
    case = OpCase(heads * width, [HeadLinear("y", "x", "w", heads)], {"y": heads * out}, "y", {})
    quantised = Weight(TensorInfo("w", GgmlType.Q8_0, values.shape, 0, packed.nbytes), packed.reshape(-1))
    plain = [weight(name, case.weights[name]) for name in ("table", "same")]
    runner = CpuRunner(case.program, iter([quantised, *plain]), 2)
    got = runner.run(rows_of([(0, rows)]))
    runner.close()
    x = case.weights["table"][rows_of([(0, rows)]).tokens].reshape(rows, heads, width)
    want = np.einsum("rhi,hoi->rho", x, values).reshape(rows, -1)
    assert np.square(got - want).sum() < 1e-3 * np.square(want).sum()
