"""What each op means, against the same formula written with scalars in double precision."""

import cmath
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from rase_models.backends.base import BLOCK_TOKENS, Rows
from rase_models.backends.reference.cache import LayerCache
from rase_models.program import (
    Activation,
    Add,
    Attention,
    Embed,
    GatedActivation,
    KvLayer,
    Linear,
    MoeFfn,
    RmsNorm,
    Rope,
    RopePairing,
    Rotate,
    SelectOutputs,
    tensors_of,
)
from rase_models.testing_cases import normal
from rase_models.testing_reference import assert_close, rows_at, run_op

Floats = NDArray[np.float32]
Buffers = dict[str, Floats]

SEEDS = st.integers(0, 2**32 - 1)


def test_embed_looks_up_and_scales() -> None:
    weight = normal(0, 5, 3)
    rows = replace(rows_at([0, 1]), tokens=np.array([4, 1], np.int32))
    assert_close(run_op(Embed("x", "w", 2.0), {}, {"w": weight}, rows)["x"], 2 * weight[[4, 1]])


@given(seed=SEEDS, heads=st.sampled_from([1, 2, 4]))
def test_rms_norm_brings_each_part_to_its_weight(seed: int, heads: int) -> None:
    x, weight = normal(seed, 3, 8), normal(seed + 1, 8 // heads)
    got = run_op(RmsNorm("x", "x", "w", 1e-3, heads), {"x": x}, {"w": weight})["x"]
    for row in range(3):
        for part in np.split(np.arange(8), heads):
            mean_square = sum(float(value) ** 2 for value in x[row, part]) / len(part)
            assert_close(got[row, part], x[row, part] / math.sqrt(mean_square + 1e-3) * weight)


@pytest.mark.parametrize("bias", [None, "b"])
def test_linear_scales_product_and_bias_apart(bias: str | None) -> None:
    x, weight, vector = normal(1, 2, 4), normal(2, 3, 4), normal(3, 3)
    got = run_op(Linear("y", "x", "w", bias, 0.5, -2.0), {"x": x}, {"w": weight, "b": vector})["y"]
    product = [[math.fsum(map(float, row * out)) for out in weight.astype(np.float64)] for row in x]
    assert_close(got, 0.5 * np.array(product) + (-2.0 * vector if bias else 0.0))


@given(seed=SEEDS, pairing=st.sampled_from(RopePairing), dimensions=st.sampled_from([2, 4, 6]))
def test_rotate_multiplies_pairs_by_a_complex_number(
    seed: int, pairing: RopePairing, dimensions: int
) -> None:
    frequencies = tuple(np.random.default_rng(seed).uniform(0.01, 2, dimensions // 2).tolist())
    x, positions = normal(seed, 2, 12), [5, 6]
    rope = Rope(pairing, dimensions, frequencies, magnitude=1.5)
    got = run_op(Rotate("x", 2, rope), {"x": x}, rows=rows_at(positions))["x"].reshape(2, 2, 6)
    want = x.reshape(2, 2, 6).astype(np.float64)
    for row, head, pair in np.ndindex(2, 2, dimensions // 2):
        adjacent = pairing is RopePairing.ADJACENT
        first, second = (2 * pair, 2 * pair + 1) if adjacent else (pair, pair + dimensions // 2)
        turn = 1.5 * cmath.exp(1j * positions[row] * frequencies[pair])
        turned = complex(want[row, head, first], want[row, head, second]) * turn
        want[row, head, first], want[row, head, second] = turned.real, turned.imag
    assert_close(got, want)


def naive_attention(op: Attention, q: Floats, keys: Floats, values: Floats, position: int) -> list[float]:
    """Return the row of one query over keys and values [positions, width]."""
    out: list[float] = []
    for head in range(op.head_count):
        kv = head // (op.head_count // op.head_count_kv)
        query = q[head * op.key_length : (head + 1) * op.key_length]
        seen = [p for p in range(position + 1) if op.window is None or position - p < op.window]
        head_keys = keys[:, kv * op.key_length : (kv + 1) * op.key_length].astype(np.float64)
        weights = [math.exp(op.scale * float(query @ head_keys[p])) for p in seen]
        for i in range(kv * op.value_length, (kv + 1) * op.value_length):
            shares = zip(weights, seen, strict=True)
            out.append(sum(weight * float(values[p, i]) for weight, p in shares) / sum(weights))
    return out


@given(
    seed=SEEDS,
    heads=st.sampled_from([(1, 1), (4, 2), (3, 1)]),
    lengths=st.sampled_from([(4, 4), (2, 6)]),
    window=st.sampled_from([None, 1, 3, 100]),
    cut=st.integers(0, 9),
)
def test_attention_sees_what_came_before_within_the_window(
    seed: int, heads: tuple[int, int], lengths: tuple[int, int], window: int | None, cut: int
) -> None:
    op = Attention("o", "q", "k", "v", 0, *heads, *lengths, scale=0.7, window=window)
    total = 10
    buffers = {
        "q": normal(seed, total, op.head_count * op.key_length),
        "k": normal(seed + 1, total, op.head_count_kv * op.key_length),
        "v": normal(seed + 2, total, op.head_count_kv * op.value_length),
    }
    cache = LayerCache(KvLayer(op.head_count_kv, op.key_length, op.value_length, window))
    cache.reserve(1)
    parts = [list(range(cut)), list(range(cut, total))]  # two runs, the second reads what the first left
    got = [
        run_op(op, {n: b[part] for n, b in buffers.items()}, rows=rows_at(part), caches=(cache,))["o"]
        for part in parts
        if part
    ]
    want = [naive_attention(op, buffers["q"][p], buffers["k"], buffers["v"], p) for p in range(total)]
    assert_close(np.concatenate(got), want)


def test_attention_keeps_sequences_apart() -> None:
    op = Attention("o", "q", "k", "v", 0, 1, 1, 2, 2, scale=1.0)
    cache = LayerCache(KvLayer(1, 2, 2))
    cache.reserve(4)
    buffers = {name: normal(seed, 5, 2) for seed, name in enumerate("qkv")}
    sequences, positions, tables = (
        np.array([0, 0, 0, 1, 1], np.int32),
        np.array([0, 1, 2, 0, 1], np.int32),
        np.array([[[3], [1]]], np.int32),
    )
    both = Rows(sequences, positions, np.zeros(5, np.int32), np.array([], np.int32), tables)
    together = run_op(op, buffers, rows=both, caches=(cache,))["o"]
    for own in ([0, 1, 2], [3, 4]):
        rows, parts = rows_at(list(range(len(own)))), {name: buffer[own] for name, buffer in buffers.items()}
        alone = run_op(op, parts, rows=rows, caches=(cache,))
        assert_close(together[own], alone["o"])


def test_attention_crosses_blocks_in_the_order_of_the_table() -> None:
    op = Attention("o", "q", "k", "v", 0, 1, 1, 2, 2, scale=1.0)
    count = BLOCK_TOKENS + 3
    buffers = {name: normal(seed, count, 2) for seed, name in enumerate("qkv")}
    outs = []
    for table in ([0, 1], [1, 0]):
        cache = LayerCache(KvLayer(1, 2, 2))
        cache.reserve(2)
        rows = replace(rows_at(list(range(count))), block_tables=np.array([[table]], np.int32))
        outs.append(run_op(op, buffers, rows=rows, caches=(cache,))["o"])
    np.testing.assert_array_equal(outs[0], outs[1])
    last = naive_attention(op, buffers["q"][-1], buffers["k"], buffers["v"], count - 1)
    assert_close(outs[0][-1], last)


FORMULAS: dict[Activation, Callable[[float], float]] = {
    Activation.SILU: lambda x: x / (1 + math.exp(-x)),
    Activation.SIGMOID: lambda x: 1 / (1 + math.exp(-x)),
    Activation.SOFTPLUS: lambda x: math.log1p(math.exp(x)),
    Activation.NONE: lambda x: x,
    Activation.GELU_TANH: lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


@pytest.mark.parametrize("activation", FORMULAS)
def test_gated_activation_multiplies_up_by_the_activated_gate(activation: Activation) -> None:
    gate, up = np.linspace(-30, 30, 61, dtype=np.float32)[None], normal(5, 1, 61)
    got = run_op(GatedActivation("g", "g", "u", activation), {"g": gate, "u": up})["g"]
    activated = [FORMULAS[activation](float(value)) for value in gate[0]]
    assert_close(got, np.array([activated]) * up)


def test_silu_of_a_very_negative_number_is_zero() -> None:
    buffers = {"g": np.array([[-1e4]], np.float32), "u": np.array([[1.0]], np.float32)}
    with np.errstate(all="raise", over="ignore"):
        assert run_op(GatedActivation("o", "g", "u", Activation.SILU), buffers)["o"] == 0


def test_add_adds_in_place() -> None:
    buffers = {"x": np.array([[1]], np.float32), "y": np.array([[2]], np.float32)}
    assert_close(run_op(Add("x", "x", "y"), buffers)["x"], [[3]])


@pytest.mark.parametrize("outputs", [(), (1,), (0, 2)])
def test_select_outputs_keeps_the_wanted_rows(outputs: tuple[int, ...]) -> None:
    x = normal(0, 3, 4)
    got = run_op(SelectOutputs("s", "x"), {"x": x}, rows=rows_at([0, 1, 2], outputs))["s"]
    np.testing.assert_array_equal(got, x[list(outputs)])


def naive_moe(op: MoeFfn, weights: Buffers, x: Floats) -> NDArray[np.float64]:
    """Return the result of one row."""
    double = {name: values.astype(np.float64) for name, values in weights.items()}
    exponentials = [math.exp(float(logit)) for logit in double["r"] @ x]
    shares = [value / sum(exponentials) for value in exponentials]
    chosen = sorted(range(op.experts), key=lambda expert: (-shares[expert], expert))[: op.experts_used]
    total = sum(shares[expert] for expert in chosen) if op.normalise else 1.0
    out = np.zeros(len(x))
    for expert in chosen:
        gate = double["g"][expert] @ x * (op.gate_scales[expert] if op.gate_scales else 1)
        up = double["u"][expert] @ x * (op.up_scales[expert] if op.up_scales else 1)
        inner = np.array([FORMULAS[op.activation](value) for value in gate]) * up
        down = double["d"][expert] @ inner * (op.down_scales[expert] if op.down_scales else 1)
        out += shares[expert] / total * op.scale * down
    return out


@given(seed=SEEDS, used=st.integers(1, 4), normalise=st.booleans(), scaled=st.booleans())
def test_moe_ffn_mixes_the_best_experts(seed: int, used: int, normalise: bool, scaled: bool) -> None:
    scales = tuple(float(value) for value in normal(seed, 4)) if scaled else ()
    op = MoeFfn(
        "o", "x", "r", "g", "u", "d", 4, used, Activation.SILU, normalise, 1.5, scales, scales[::-1], scales
    )
    shapes = {"r": (4, 6), "g": (4, 5, 6), "u": (4, 5, 6), "d": (4, 6, 5)}
    weights = {name: normal(seed + i, *shape) for i, (name, shape) in enumerate(shapes.items())}
    x = normal(seed + 9, 3, 6)
    assert_close(run_op(op, {"x": x}, weights)["o"], [naive_moe(op, weights, row) for row in x])


def test_a_tie_between_experts_goes_to_the_lower_index() -> None:
    one = np.ones((3, 1, 1), np.float32)
    weights = {"r": np.zeros((3, 1), np.float32), "g": one, "u": one}
    weights["d"] = np.array([1, 10, 100], np.float32).reshape(3, 1, 1)
    op = MoeFfn("o", "x", "r", "g", "u", "d", 3, 2, Activation.SILU)
    got = run_op(op, {"x": np.array([[1]], np.float32)}, weights)["o"]
    assert_close(got, [[5.5 * FORMULAS[Activation.SILU](1.0)]])


def test_ops_name_their_tensors() -> None:
    assert tensors_of(Linear("y", "x", "w")) == ("w",)
    assert tensors_of(Linear("y", "x", "w", "b")) == ("w", "b")
    assert tensors_of(MoeFfn("o", "x", "r", "g", "u", "d", 1, 1, Activation.SILU)) == ("r", "g", "u", "d")
    assert tensors_of(Add("x", "x", "y")) == ()
