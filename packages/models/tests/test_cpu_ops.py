"""Every op on the CPU, against the reference backend, fused and not."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rase_core.errors import BackendFailure
from rase_models.kv_type import KvType
from rase_models.program import (
    Activation,
    Add,
    Attention,
    Embed,
    GatedActivation,
    KvLayer,
    Linear,
    MoeFfn,
    Op,
    RmsNorm,
    Rope,
    RopePairing,
    Rotate,
)
from rase_models.testing_cases import TOKENS, OpCase, normal, rows_of

few = settings(max_examples=8)
SEEDS = st.integers(0, 2**32 - 1)


@few
@given(st.integers(1, 100), st.integers(1, 20), st.floats(-3, 3, width=32))
def test_embeddings_are_looked_up_and_scaled(width: int, rows: int, scale: float) -> None:
    OpCase(width, [Embed("y", "other", scale)], {"y": width}, "y", {"other": normal(2, TOKENS, width)}).check(
        rows_of([(0, rows)])
    )


@few
@given(st.integers(1, 150), st.integers(1, 9))
@example(16, 1)
@example(17, 1)
def test_rows_are_normed(width: int, rows: int) -> None:
    OpCase(width, [RmsNorm("y", "x", "w", 1e-5)], {"y": width}, "y", {"w": normal(2, width)}).check(
        rows_of([(0, rows)])
    )


@few
@given(st.integers(1, 4), st.sampled_from([16, 32, 80]), st.integers(1, 9))
def test_heads_are_normed_in_place(heads: int, length: int, rows: int) -> None:
    norm = RmsNorm("x", "x", "w", 1e-6, heads)
    OpCase(heads * length, [norm], {}, "x", {"w": normal(2, length)}).check(rows_of([(0, rows)]))


def test_heads_that_are_no_whole_vectors_are_refused() -> None:
    case = OpCase(40, [RmsNorm("x", "x", "w", 1e-6, 2)], {}, "x", {"w": normal(2, 20)})
    with pytest.raises(BackendFailure, match="heads of 20 values"):
        case.on_cpu(rows_of([(0, 1)]))


@few
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 20), st.booleans(), st.sampled_from([1.0, 0.5]))
@example(33, 17, 16, True, 0.25)
def test_matrices_multiply_with_scales_and_biases(
    width: int, out: int, rows: int, biased: bool, scale: float
) -> None:
    op = Linear("y", "x", "w", "b" if biased else None, scale, 2 * scale)
    weights = {"w": normal(2, out, width), "b": normal(3, out)}
    OpCase(width, [op], {"y": out}, "y", weights).check(rows_of([(0, rows)]))


@few
@given(st.integers(1, 40), st.integers(1, 20), st.booleans(), st.booleans())
def test_a_product_is_added_to_the_residual(width: int, rows: int, biased: bool, swapped: bool) -> None:
    linear = Linear("y", "x", "w", "b" if biased else None)
    add = Add("x", "y", "x") if swapped else Add("x", "x", "y")
    OpCase(
        width, [linear, add], {"y": width}, "x", {"w": normal(2, width, width), "b": normal(3, width)}
    ).check(rows_of([(0, rows)]))


@few
@given(st.integers(1, 80), st.integers(1, 9))
def test_a_norm_is_added_to_the_residual(width: int, rows: int) -> None:
    ops: list[Op] = [Linear("y", "x", "w"), RmsNorm("y", "y", "n", 1e-5), Add("x", "x", "y")]
    OpCase(width, ops, {"y": width}, "x", {"w": normal(2, width, width), "n": normal(3, width)}).check(
        rows_of([(0, rows)])
    )


@few
@given(st.integers(1, 40), st.integers(1, 9))
def test_rows_are_added_to_a_third_place(width: int, rows: int) -> None:
    ops: list[Op] = [Linear("y", "x", "w"), Add("z", "x", "y")]
    OpCase(width, ops, {"y": width, "z": width}, "z", {"w": normal(2, width, width)}).check(
        rows_of([(0, rows)])
    )


@few
@given(
    st.integers(1, 50), st.sampled_from([8, 32, 96]), st.integers(1, 70), st.sampled_from(list(Activation))
)
def test_gates_are_activated(width: int, hidden: int, rows: int, activation: Activation) -> None:
    ops: list[Op] = [
        Linear("gate", "x", "g"),
        Linear("up", "x", "u"),
        GatedActivation("gate", "gate", "up", activation),
        Linear("y", "gate", "d"),
    ]
    weights = {"g": normal(2, hidden, width, scale=0.25), "u": normal(3, hidden, width)}
    weights["d"] = normal(4, width, hidden, scale=0.1)
    OpCase(width, ops, {"gate": hidden, "up": hidden, "y": width}, "y", weights).check(
        rows_of([(0, rows)]), tolerance=3e-4
    )


@few
@given(
    st.sampled_from(list(RopePairing)),
    st.integers(1, 3),
    st.sampled_from([(16, 16), (64, 64), (64, 32), (80, 80), (96, 20), (48, 2)]),
    st.integers(0, 3000),
)
def test_heads_turn_by_their_position(
    pairing: RopePairing, heads: int, lengths: tuple[int, int], start: int
) -> None:
    length, dimensions = lengths
    frequencies = tuple(10000.0 ** (-2 * i / dimensions) for i in range(dimensions // 2))
    op = Rotate("x", heads, Rope(pairing, dimensions, frequencies, 1.25))
    OpCase(heads * length, [op], {}, "x", {}).check(rows_of([(start, 9)]))


def attention_case(
    heads: int, kv_heads: int, key: int, value: int, window: int | None, *, normed: bool = True
) -> OpCase:
    """Return a case of one whole attention, with norms and turns of its heads."""
    rope = Rope(RopePairing.HALVES, key, tuple(1.5**-i for i in range(key // 2)))
    projections = {"q": heads * key, "k": kv_heads * key, "v": kv_heads * value}
    ops: list[Op] = [Linear(name, "x", f"w{name}") for name in projections]
    if normed:
        ops[1:1] = [RmsNorm("q", "q", "n", 1e-6, heads), Rotate("q", heads, rope)]
        ops[4:4] = [RmsNorm("k", "k", "n", 1e-6, kv_heads), Rotate("k", kv_heads, rope)]
    ops.append(Attention("y", "q", "k", "v", 0, heads, kv_heads, key, value, key**-0.5, window))
    weights = {
        f"w{name}": normal(index, out, 32, scale=0.3) for index, (name, out) in enumerate(projections.items())
    }
    layer = KvLayer(kv_heads, key, value, window)
    buffers = {**projections, "y": heads * value}
    return OpCase(32, ops, buffers, "y", {**weights, "n": normal(9, key)}, (layer,))


@few
@given(
    st.sampled_from([(1, 1), (3, 1), (4, 2), (6, 2), (16, 1), (20, 1)]),
    st.sampled_from([(16, 16), (64, 64), (48, 80), (96, 32), (256, 256)]),
    st.sampled_from([None, 1, 5, 64, 300]),
    st.sampled_from([[(0, 1)], [(0, 70)], [(0, 3), (0, 90), (0, 1)]]),
    st.booleans(),
    st.sampled_from(KvType),
)
def test_rows_attend_to_what_they_see(
    heads: tuple[int, int],
    lengths: tuple[int, int],
    window: int | None,
    sequences: list[tuple[int, int]],
    normed: bool,
    kv_type: KvType,
) -> None:
    case = attention_case(*heads, *lengths, window, normed=normed)
    case.check(
        rows_of(sequences), tolerance=KV_TOLERANCES[kv_type], error=KV_ERRORS[kv_type], kv_type=kv_type
    )


KV_TOLERANCES = {KvType.F32: 1e-4, KvType.F16: 2e-2, KvType.Q8_0: 0.3}
KV_ERRORS = {KvType.F32: 1e-8, KvType.F16: 1e-5, KvType.Q8_0: 2e-3}


@pytest.mark.parametrize("kv_type", KvType)
@pytest.mark.parametrize("window", [None, 100, 256, 400])
def test_a_row_attends_over_spans_that_earlier_runs_left(window: int | None, kv_type: KvType) -> None:
    case = attention_case(4, 1, 32, 32, window)
    runs = [rows_of([(0, 300)], []), rows_of([(300, 350)], [0]), rows_of([(650, 1)])]
    case.check(*runs, tolerance=KV_TOLERANCES[kv_type], error=KV_ERRORS[kv_type], kv_type=kv_type)


def test_heads_of_other_lengths_are_refused() -> None:
    with pytest.raises(BackendFailure, match="heads of 24 values"):
        attention_case(1, 1, 24, 24, None, normed=False).on_cpu(rows_of([(0, 1)]))


@few
@given(st.lists(st.integers(0, 19), unique=True).map(sorted), st.integers(1, 40))
def test_only_wanted_rows_are_worked_on_further(outputs: list[int], width: int) -> None:
    case = OpCase(width, [RmsNorm("y", "x", "n", 1e-5)], {"y": width}, "y", {"n": normal(2, width)})
    rows = rows_of([(0, 20)], outputs)
    assert case.on_cpu(rows).shape == (len(outputs), width)
    case.check(rows)


def test_a_program_that_selects_no_rows_is_refused_and_leaves_no_threads() -> None:
    case = OpCase(16, [], {}, "x", {})
    case.program = replace(case.program, ops=(Embed("x", "table"), Linear("logits", "x", "same")))
    with pytest.raises(BackendFailure, match="must select the rows"):
        case.on_cpu(rows_of([(0, 1)]))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rase-cpu")]


@few
@given(SEEDS, st.integers(1, 4), st.integers(1, 80), st.booleans(), st.booleans(), st.sampled_from([32, 64]))
def test_rows_go_to_their_experts(
    seed: int, used: int, rows: int, normalise: bool, scaled: bool, width: int
) -> None:
    experts, hidden = 5, 32
    scales = tuple(normal(seed + 5, experts).tolist()) if scaled else ()
    op = MoeFfn(
        "y", "x", "r", "g", "u", "d", experts, used, Activation.SILU, normalise, 0.7, scales, scales, scales
    )
    weights = {
        "r": normal(seed, experts, width),
        "g": normal(seed + 1, experts, hidden, width, scale=0.3),
        "u": normal(seed + 2, experts, hidden, width, scale=0.3),
        "d": normal(seed + 3, experts, width, hidden, scale=0.3),
    }
    OpCase(width, [op], {"y": width}, "y", weights).check(rows_of([(0, rows)]), tolerance=5e-4)


def test_among_equal_experts_the_first_is_chosen() -> None:
    op = MoeFfn("y", "x", "r", "g", "u", "d", 4, 2, Activation.SILU)
    weights = {
        "r": np.zeros((4, 32), np.float32),
        "g": normal(1, 4, 32, 32),
        "u": normal(2, 4, 32, 32),
        "d": normal(3, 4, 32, 32),
    }
    OpCase(32, [op], {"y": 32}, "y", weights).check(rows_of([(0, 5)]), tolerance=1e-2)
