"""Fields of ops that few architectures set, on the CPU against the reference backend."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_models.kv_type import KvType
from rase_models.program import (
    Activate,
    Activation,
    Add,
    Attention,
    KvLayer,
    LayerNorm,
    Linear,
    MoeFfn,
    Op,
    RmsNorm,
    Scoring,
)
from rase_models.testing_cases import OpCase, normal, rows_of

few = settings(max_examples=8)
EXPERTS, HIDDEN = 4, 32


@few
@given(st.sampled_from([LayerNorm, RmsNorm]), st.sampled_from([(1, 50), (3, 16), (2, 80)]), st.booleans())
def test_norms_may_have_no_weights(
    kind: type[LayerNorm | RmsNorm], parts: tuple[int, int], added: bool
) -> None:
    heads, length = parts
    rms, layer = RmsNorm("y", "x", None, 1e-5, heads), LayerNorm("y", "x", None, None, 1e-5, heads)
    ops: list[Op] = [rms if kind is RmsNorm else layer]
    ops += [Add("x", "x", "y")] if added else []
    width = heads * length
    OpCase(width, ops, {"y": width}, "x" if added else "y", {}).check(rows_of([(0, 3)]))


@few
@given(st.integers(1, 70), st.integers(1, 9), st.floats(-3, 3, width=32))
def test_sums_are_multiplied_by_a_number(width: int, rows: int, scale: float) -> None:
    ops: list[Op] = [Linear("y", "x", "w"), Add("x", "x", "y", scale)]
    case = OpCase(width, ops, {"y": width}, "x", {"w": normal(2, width, width)})
    case.check(rows_of([(0, rows)]), tolerance=1e-4)


@few
@given(st.sampled_from([5, 32, 96]), st.integers(1, 9))
def test_biases_are_added_before_activation(width: int, rows: int) -> None:
    ops: list[Op] = [Activate("x", "x", Activation.SOFTPLUS, "b"), Linear("y", "x", "w")]
    weights = {"w": normal(2, 24, width), "b": normal(3, width)}
    OpCase(width, ops, {"y": 24}, "y", weights).check(rows_of([(0, rows)]), tolerance=1e-4)


@pytest.mark.parametrize(
    ("scoring", "weighs_inputs"),
    [(Scoring.SOFTMAX, False), (Scoring.SIGMOID, True), (Scoring.SIGMOID, False)],
)
@pytest.mark.parametrize("own_buffer", [False, True])
@pytest.mark.parametrize("rows", [1, 9])
def test_routers_may_read_another_buffer_and_weights_multiply_inputs(
    scoring: Scoring, weighs_inputs: bool, own_buffer: bool, rows: int
) -> None:
    width, router_width = 64, 32 if own_buffer else 64
    op = MoeFfn(
        *("y", "x", "r", "g", "u", "d", EXPERTS, 2, Activation.SILU),
        normalise=False,
        scoring=scoring,
        router_x="z" if own_buffer else None,
        weighs_inputs=weighs_inputs,
    )
    weights = {
        "p": normal(2, 32, width, scale=0.2),
        "r": normal(3, EXPERTS, router_width, scale=0.2),
        "g": normal(4, EXPERTS, HIDDEN, width, scale=0.2),
        "u": normal(5, EXPERTS, HIDDEN, width, scale=0.2),
        "d": normal(6, EXPERTS, width, HIDDEN, scale=0.2),
    }
    case = OpCase(width, [Linear("z", "x", "p"), op], {"y": width, "z": 32}, "y", weights)
    case.check(rows_of([(0, rows)]), tolerance=1e-4)


def attention_case(attention: Attention, *more: Attention) -> OpCase:
    """Return a case of attention of 4 heads to 2, 16 long, and perhaps of more to the same cache."""
    ops: list[Op] = [Linear(name, "x", f"w{name}") for name in "qkv"]
    ops += [attention, *more]
    ops += [Add("y", "y", op.out) for op in more]
    widths = {"q": 64, "k": 32, "v": 32, **{op.out: 64 for op in (attention, *more)}}
    weights = {f"w{name}": normal(index, widths[name], 32, scale=0.3) for index, name in enumerate("qkv")}
    return OpCase(32, ops, widths, "y", weights, (KvLayer(2, 16, 16, attention.window),))


@few
@given(st.integers(0, 500), st.integers(1, 40), st.sampled_from([None, 24]))
def test_scores_fall_with_distance(before: int, rows: int, window: int | None) -> None:
    slopes = (0.5, 0.25, 0.0625, 0.0)
    case = attention_case(Attention("y", "q", "k", "v", 0, 4, 2, 16, 16, 0.25, window, slopes=slopes))
    runs = [rows_of([(0, before)])] if before else []
    case.check(*runs, rows_of([(before, rows)]), tolerance=1e-4, kv_type=KvType.F32)


@few
@given(st.integers(0, 500), st.integers(1, 40), st.sampled_from([16, 24, 300]))
def test_chunks_begin_at_multiples_of_the_window(before: int, rows: int, window: int) -> None:
    case = attention_case(Attention("y", "q", "k", "v", 0, 4, 2, 16, 16, 0.25, window, chunked=True))
    runs = [rows_of([(0, before)])] if before else []
    case.check(*runs, rows_of([(before, rows)]), tolerance=1e-4, kv_type=KvType.F32)


def test_the_first_row_of_a_chunk_sees_itself_alone() -> None:
    case = attention_case(Attention("y", "q", "k", "v", 0, 4, 2, 16, 16, 0.25, 16, chunked=True))
    out = case.by_reference(rows_of([(0, 17)]))
    alone = case.by_reference(rows_of([(0, 16)]), rows_of([(16, 1)]))
    np.testing.assert_allclose(out[-1], alone[-1], rtol=1e-4, atol=1e-5)
    values = attention_case(Attention("y", "q", "k", "v", 0, 4, 2, 16, 16, 0.25, 1))
    np.testing.assert_allclose(out[-1], values.by_reference(rows_of([(0, 17)]))[-1], rtol=1e-4, atol=1e-5)


@few
@given(st.integers(0, 300), st.integers(1, 40), st.sampled_from([None, 24]))
def test_attention_without_keys_reads_what_another_has_stored(
    before: int, rows: int, window: int | None
) -> None:
    first = Attention("y", "q", "k", "v", 0, 4, 2, 16, 16, 0.25, window)
    second = Attention("shared", "q", None, None, 0, 4, 2, 16, 16, 0.5, window)
    runs = [rows_of([(0, before)])] if before else []
    case = attention_case(first, second)
    case.check(*runs, rows_of([(before, rows)]), tolerance=1e-4, kv_type=KvType.F32)


@pytest.mark.parametrize("rows", [1, 9])
def test_experts_whose_gates_are_their_ups_are_multiplied_by_once_with_the_same_bits(rows: int) -> None:
    def case(gate: str) -> OpCase:
        op = MoeFfn("y", "x", "r", gate, "u", "d", EXPERTS, 2, Activation.RELU)
        assert op.multiplies_once == (gate == "u")
        up = normal(5, EXPERTS, HIDDEN, 64, scale=0.2)
        weights = {"r": normal(3, EXPERTS, 64, scale=0.2), "g": up, "u": up}
        weights["d"] = normal(6, EXPERTS, 64, HIDDEN, scale=0.2)
        return OpCase(64, [op], {"y": 64}, "y", weights)

    once, twice = case("u"), case("g")
    once.check(rows_of([(0, rows)]), tolerance=1e-4)
    np.testing.assert_array_equal(once.on_cpu(rows_of([(0, rows)])), twice.on_cpu(rows_of([(0, rows)])))
