"""What the ops mean that few architectures have, against scalar formulas in double precision."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from rase_models.backends.base import Rows
from rase_models.backends.reference.cache import LayerCache
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
    MoeFfn,
    RmsNorm,
    Rope,
    RopePairing,
    Rotate,
    Scoring,
    SoftCap,
)
from rase_models.testing_cases import normal
from rase_models.testing_reference import assert_close, run_op

Floats = NDArray[np.float32]
SEEDS = st.integers(0, 2**32 - 1)


def rows_from(start: int, count: int) -> Rows:
    positions = np.arange(start, start + count, dtype=np.int32)
    same = np.zeros(count, np.int32)
    return Rows(same, positions, same, same[:1], np.arange(100, dtype=np.int32)[None, None])


@given(seed=SEEDS, heads=st.sampled_from([1, 2, 4]), shared=st.booleans(), biased=st.booleans())
def test_layer_norm_centres_and_brings_each_part_to_its_weight(
    seed: int, heads: int, shared: bool, biased: bool
) -> None:
    x, length = normal(seed, 3, 8), 8 // heads
    shape = (length,) if shared else (heads, length)
    weight, bias = normal(seed + 1, *shape), normal(seed + 2, *shape)
    op = LayerNorm("y", "x", "w", "b" if biased else None, 0.01, heads, shared)
    got = run_op(op, {"x": x}, {"w": weight, "b": bias})["y"].reshape(3, heads, length)
    for row, head in np.ndindex(3, heads):
        part = x.reshape(3, heads, length)[row, head].astype(np.float64)
        normed = (part - part.mean()) / math.sqrt(part.var() + 0.01)
        own = weight if shared else weight[head]
        assert_close(got[row, head], normed * own + ((bias if shared else bias[head]) if biased else 0))


def test_rms_norm_may_have_a_weight_for_every_part() -> None:
    x, weight = normal(0, 2, 6), normal(1, 2, 3)
    got = run_op(RmsNorm("x", "x", "w", 0.1, 2, shared=False), {"x": x}, {"w": weight})["x"]
    parts = x.reshape(2, 2, 3).astype(np.float64)
    want = parts / np.sqrt((parts**2).mean(axis=-1, keepdims=True) + 0.1) * weight
    assert_close(got, want.reshape(2, 6))


def test_embed_looks_positions_up() -> None:
    weight = normal(0, 9, 3)
    got = run_op(Embed("y", "w", 2.0, by_position=True), {}, {"w": weight}, rows_from(4, 3))["y"]
    assert_close(got, 2 * weight[4:7])


@pytest.mark.parametrize("x", [0.0, 1.5, -40.0, math.inf])
def test_soft_cap_bends_values_towards_the_cap(x: float) -> None:
    got = run_op(SoftCap("x", 30.0), {"x": np.array([[x]], np.float32)})["x"]
    assert_close(got, [[30 * math.tanh(x / 30)]])


def test_activate_needs_no_gate() -> None:
    got = run_op(Activate("y", "x", Activation.SILU), {"x": np.array([[0.0, 2.0]], np.float32)})["y"]
    assert_close(got, [[0.0, 2 / (1 + math.exp(-2))]])


@pytest.mark.parametrize("cap", [None, 0.5])
@pytest.mark.parametrize("sinks", [None, "s"])
def test_attention_caps_scores_and_shares_with_a_sink(cap: float | None, sinks: str | None) -> None:
    op = Attention("o", "q", "k", "v", 0, 2, 1, 2, 2, 0.7, soft_cap=cap, sinks=sinks)
    buffers = {"q": normal(0, 4, 4), "k": normal(1, 4, 2), "v": normal(2, 4, 2)}
    cache, sink = LayerCache(KvLayer(1, 2, 2)), normal(3, 2)
    cache.reserve(1)
    got = run_op(op, buffers, {"s": sink}, caches=(cache,))["o"]
    for row, head in np.ndindex(4, 2):
        scores = [
            0.7 * float(buffers["q"][row, 2 * head : 2 * head + 2] @ buffers["k"][p]) for p in range(row + 1)
        ]
        weights = [math.exp(s if cap is None else cap * math.tanh(s / cap)) for s in scores]
        total = sum(weights) + (math.exp(sink[head]) if sinks else 0)
        want = sum(w * buffers["v"][p].astype(np.float64) for p, w in enumerate(weights)) / total
        assert_close(got[row, 2 * head : 2 * head + 2], want)


def test_a_rope_may_grow_by_whole_contexts() -> None:
    rope = Rope(RopePairing.HALVES, 2, (0.0,), 1.5, growth=0.1, growth_length=10)
    got = run_op(Rotate("x", 1, rope), {"x": np.ones((3, 2), np.float32)}, rows=rows_from(9, 3))["x"]
    assert_close(got[:, 0], [1.5, 1.5 * (1 + 0.1 * math.log(2)), 1.5 * (1 + 0.1 * math.log(2))])


@pytest.mark.parametrize("gate, up", [(0.5, 1.0), (9.0, -2.0), (-3.0, 20.0), (1.0, -20.0)])
def test_a_clamped_gate_bounds_both_sides(gate: float, up: float) -> None:
    op = GatedActivation("o", "g", "u", Activation.CLAMPED_SWIGLU)
    got = run_op(op, {"g": np.array([[gate]], np.float32), "u": np.array([[up]], np.float32)})["o"]
    x = min(gate, 7)
    assert_close(got, [[x / (1 + math.exp(-1.702 * x)) * (max(-7, min(up, 7)) + 1)]])


def test_one_value_may_be_the_gate_of_a_whole_row() -> None:
    up = normal(0, 2, 3)
    op = GatedActivation("u", "g", "u", Activation.SIGMOID)
    got = run_op(op, {"g": np.array([[0.0], [2.0]], np.float32), "u": up})["u"]
    assert_close(got, up * np.array([[0.5], [1 / (1 + math.exp(-2))]]))


def test_every_part_of_a_row_may_have_a_gate() -> None:
    up = normal(0, 1, 6)
    op = GatedActivation("u", "g", "u", Activation.SIGMOID)
    got = run_op(op, {"g": np.array([[0.0, 2.0]], np.float32), "u": up})["u"]
    assert_close(got, up * np.repeat([0.5, 1 / (1 + math.exp(-2))], 3))


def test_a_vector_serves_as_a_matrix_of_one_row() -> None:
    x, weight = normal(0, 2, 3), normal(1, 3)
    assert_close(run_op(Linear("y", "x", "w"), {"x": x}, {"w": weight})["y"], (x @ weight)[:, None])


@pytest.mark.parametrize("heads", [1, 3])
def test_head_linear_multiplies_each_part_by_its_own_matrix(heads: int) -> None:
    x, weight = normal(0, 2, heads * 4), normal(1, heads, 5, 4)
    got = run_op(HeadLinear("y", "x", "w", heads), {"x": x}, {"w": weight if heads > 1 else weight[0]})["y"]
    for row, head in np.ndindex(2, heads):
        want = weight[head].astype(np.float64) @ x[row, 4 * head : 4 * head + 4]
        assert_close(got[row, 5 * head : 5 * head + 5], want)


def test_copy_parts_leaves_the_rest_of_a_part() -> None:
    x, out = np.arange(8, dtype=np.float32)[None], np.full((1, 6), -1, np.float32)
    op = CopyParts("y", "x", parts=2, length=3, width=2, first=1, out_first=1)
    assert run_op(op, {"x": x, "y": out})["y"].tolist() == [[-1, 1, 2, -1, 5, 6]]
    assert out.tolist() == [[-1] * 6]
    shared = CopyParts("y", "x", parts=2, length=3, width=1, first=7, shared=True)
    assert run_op(shared, {"x": x})["y"].tolist() == [[7, 0, 0, 7, 0, 0]]


def chosen_experts(op: MoeFfn, logits: list[float], bias: list[float]) -> dict[int, float]:
    """Return the weights of the experts that a row goes to."""
    total = sum(math.exp(x) for x in logits)
    sigmoid = op.scoring is Scoring.SIGMOID
    scores = [1 / (1 + math.exp(-x)) if sigmoid else math.exp(x) / total for x in logits]
    ranks = [score + extra for score, extra in zip(scores, bias, strict=True)]
    size = op.experts // op.groups
    groups = [list(range(start, start + size)) for start in range(0, op.experts, size)]
    groups.sort(key=lambda group: -sum(sorted(ranks[e] for e in group)[-2:]))
    allowed = [expert for group in groups[: op.groups_used] for expert in group]
    best = sorted(allowed, key=lambda expert: (-ranks[expert], expert))[: op.experts_used]
    divisor = sum(scores[expert] for expert in best) if op.normalise else 1.0
    return {expert: scores[expert] / divisor for expert in best}


@given(
    seed=SEEDS,
    scoring=st.sampled_from(Scoring),
    groups=st.sampled_from([(1, 1), (2, 1), (4, 2), (4, 3)]),
    used=st.integers(1, 2),
    normalise=st.booleans(),
)
def test_experts_are_chosen_by_score_and_bias_within_the_best_groups(
    seed: int, scoring: Scoring, groups: tuple[int, int], used: int, normalise: bool
) -> None:
    op = MoeFfn(
        *("y", "x", "r", "g", "u", "d", 8, used, Activation.SILU, normalise),
        scoring=scoring,
        groups=groups[0],
        groups_used=groups[1],
        router_bias="rb",
        selection_bias="sb",
        gate_bias="gb",
        up_bias="ub",
        down_bias="db",
    )
    weights = {
        "r": normal(seed, 8, 3),
        "rb": normal(seed + 1, 8),
        "sb": normal(seed + 2, 8),
        "g": np.zeros((8, 4, 3), np.float32),
        "gb": normal(seed + 3, 8, 4),
        "u": np.zeros((8, 4, 3), np.float32),
        "ub": normal(seed + 4, 8, 4),
        "d": normal(seed + 5, 8, 3, 4),
        "db": normal(seed + 6, 8, 3),
    }
    x = normal(seed + 7, 1, 3)
    logits = (x[0] @ weights["r"].T.astype(np.float64) + weights["rb"]).tolist()
    want = np.zeros(3)
    for expert, share in chosen_experts(op, logits, weights["sb"].tolist()).items():
        gate = weights["gb"][expert].astype(np.float64)
        hidden = gate / (1 + np.exp(-gate)) * weights["ub"][expert]
        want += share * (weights["d"][expert] @ hidden + weights["db"][expert])
    assert_close(run_op(op, {"x": x}, weights)["y"], want[None])
