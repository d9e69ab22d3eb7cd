"""Ops that mix buffers, on the CPU against the reference backend, and that against formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import BackendFailure
from rase_models.program import AddDots, Blend, Clamp, Linear, MixParts, Op, Rescale, Scale, Sparsify, Xielu
from rase_models.testing_cases import OpCase, normal, rows_of

few = settings(max_examples=8)


def case_of(op: Op, width: int, inputs: dict[str, int], out: int, **weights: tuple[int, ...]) -> OpCase:
    """Return a case whose other inputs are products of x; the result goes through a matrix."""
    ops = [*(Linear(name, "x", f"w_{name}") for name in inputs), op, Linear("z", "y", "w_z")]
    tensors = {
        f"w_{name}": normal(9 + place, size, width, scale=0.3)
        for place, (name, size) in enumerate(inputs.items())
    }
    tensors |= {name: normal(20 + place, *shape) for place, (name, shape) in enumerate(weights.items())}
    tensors["w_z"] = normal(2, 24, out, scale=0.3)
    return OpCase(width, ops, {**inputs, "y": out, "z": 24}, "z", tensors)


@few
@given(
    st.sampled_from([(5, None), (32, None), (96, 6)]),
    st.integers(1, 9),
    st.booleans(),
    st.floats(-3, 3, width=32),
)
def test_rows_are_scaled(size: tuple[int, int | None], rows: int, weighed: bool, factor: float) -> None:
    width, parts = size
    op = Scale("y", "x", "w" if weighed else None, factor, parts if weighed else None)
    case_of(op, width, {}, width, w=(parts or width,)).check(rows_of([(0, rows)]), tolerance=1e-4)


@few
@given(st.sampled_from([(7, 1), (32, 1), (48, 5)]), st.integers(1, 9), st.sampled_from(["w", "g", "wg"]))
def test_buffers_are_blended(size: tuple[int, int], rows: int, shares: str) -> None:
    width, parts = size
    out = width * parts
    op = Blend("y", "x", "o", "w" if "w" in shares else None, "g" if "g" in shares else None)
    case_of(op, width, {"o": width, "g": out}, out, w=(parts, width)).check(
        rows_of([(0, rows)]), tolerance=1e-4
    )


@few
@given(st.sampled_from([(4, 4, 16), (1, 3, 48), (3, 1, 32)]), st.integers(1, 9), st.sampled_from([0.0, 1.0]))
def test_parts_are_mixed(sizes: tuple[int, int, int], rows: int, offset: float) -> None:
    outs, ins, length = sizes
    op = MixParts("y", "x", "s", "b", length, offset)
    case = case_of(op, ins * length, {"s": outs * ins, "b": outs * length}, outs * length)
    case.check(rows_of([(0, rows)]), tolerance=1e-4)


@few
@given(st.sampled_from([(1, 16), (3, 48)]), st.integers(1, 9))
def test_parts_get_the_length_of_another_buffer(sizes: tuple[int, int], rows: int) -> None:
    heads, width = sizes
    op = Rescale("y", "x", "l", 1e-9, heads)
    case_of(op, heads * width, {"l": width}, heads * width).check(rows_of([(0, rows)]), tolerance=1e-4)


@few
@given(st.sampled_from([16, 48, 208]), st.integers(1, 9), st.floats(-1, 2, width=32))
def test_values_near_the_mean_are_cut(width: int, rows: int, deviations: float) -> None:
    case_of(Sparsify("y", "x", deviations), width, {}, width).check(rows_of([(0, rows)]), tolerance=1e-4)


@few
@given(st.sampled_from([5, 16, 72]), st.integers(1, 9), st.tuples(*[st.floats(-2, 2, width=32)] * 3))
def test_values_are_bent(width: int, rows: int, bends: tuple[float, float, float]) -> None:
    case_of(Xielu("y", "x", *bends), width, {}, width).check(rows_of([(0, rows)]), tolerance=1e-4)


@few
@given(st.sampled_from([5, 16, 72]), st.integers(1, 9), st.sampled_from([0.1, 0.7, 9.0]))
def test_values_are_clamped(width: int, rows: int, limit: float) -> None:
    case_of(Clamp("y", "x", limit), width, {}, width).check(rows_of([(0, rows)]), tolerance=1e-4)


@few
@given(st.sampled_from([(1, 16), (3, 32)]), st.integers(1, 9))
def test_values_are_added_by_the_dots_of_their_heads(sizes: tuple[int, int], rows: int) -> None:
    heads, width = sizes
    whole = heads * width
    op = AddDots("y", "x", "q", "k", "v", "w", heads)
    case = case_of(op, whole, dict.fromkeys("qkv", whole), whole, w=(whole,))
    case.check(rows_of([(0, rows)]), tolerance=1e-3)


@pytest.mark.parametrize(
    "case",
    [
        case_of(Sparsify("y", "x", 1.0), 8, {}, 8),
        case_of(Rescale("y", "x", "l", 1e-9), 8, {"l": 8}, 8),
        case_of(Blend("y", "x", "o", "w"), 8, {"o": 8}, 24, w=(3, 8)),
        case_of(MixParts("y", "x", "s", "b", 8), 16, {"s": 4, "b": 16}, 16),
        case_of(AddDots("y", "x", "q", "k", "v", "w", 2), 16, dict.fromkeys("qkv", 16), 16, w=(16,)),
    ],
)
def test_parts_that_are_no_whole_vectors_are_refused(case: OpCase) -> None:
    with pytest.raises(BackendFailure, match="on 8 values"):
        case.on_cpu(rows_of([(0, 1)]))


@pytest.mark.parametrize(
    "case",
    [
        case_of(Scale("y", "x", "w", 0.3, 6), 96, {}, 96, w=(6,)),
        case_of(Blend("y", "x", "o", "w", "g"), 48, {"o": 48, "g": 240}, 240, w=(5, 48)),
        case_of(MixParts("y", "x", "s", "b", 16), 64, {"s": 16, "b": 64}, 64),
        case_of(Rescale("y", "x", "l", 1e-9, 3), 144, {"l": 48}, 144),
        case_of(Sparsify("y", "x", 0.5), 208, {}, 208),
        case_of(AddDots("y", "x", "q", "k", "v", "w", 3), 96, dict.fromkeys("qkv", 96), 96, w=(96,)),
    ],
)
def test_rows_have_the_same_bits_alone_and_beside_others(case: OpCase) -> None:
    together = case.on_cpu(rows_of([(0, 11), (3, 4)]), threads=2)
    alone = [case.on_cpu(rows_of([(0, at)]), threads=1)[-1] for at in (1, 4, 11)]
    np.testing.assert_array_equal([together[0], together[3], together[10]], alone)


def test_a_mixture_adds_each_part_by_its_weight() -> None:
    case = OpCase(
        6,
        [Linear("s", "x", "w"), MixParts("y", "x", "s", "x", 3, 0.5)],
        {"s": 4, "y": 6},
        "y",
        {"w": normal(3, 4, 6)},
    )
    rows = rows_of([(0, 2)])
    x = case.weights["table"][rows.tokens].astype(np.float64)
    shares = x @ case.weights["w"].T + 0.5
    for row, got in enumerate(case.by_reference(rows)):
        for i, j in np.ndindex(2, 3):
            want = x[row, 3 * i + j] + sum(
                shares[row, 2 * i + part] * x[row, 3 * part + j] for part in range(2)
            )
            assert got[3 * i + j] == pytest.approx(want, abs=1e-4)


def test_what_is_left_of_a_row_is_how_far_it_is_above_mean_and_deviation() -> None:
    case, rows = OpCase(5, [Sparsify("y", "x", 0.25)], {"y": 5}, "y", {}), rows_of([(0, 3)])
    x = case.weights["table"][rows.tokens].astype(np.float64)
    for row, got in zip(x, case.by_reference(rows), strict=True):
        deviation = np.sqrt(((row - row.mean()) ** 2).sum() / 4)
        np.testing.assert_allclose(got, np.maximum(row - row.mean() - 0.25 * deviation, 0), atol=1e-5)


def test_clamped_values_are_beyond_no_bound() -> None:
    case, rows = OpCase(5, [Clamp("y", "x", 0.5)], {"y": 5}, "y", {}), rows_of([(0, 9)])
    x = case.weights["table"][rows.tokens]
    np.testing.assert_array_equal(case.by_reference(rows), np.maximum(np.minimum(x, 0.5), -0.5))


def test_values_bend_as_the_formula_says() -> None:
    case, rows = OpCase(5, [Xielu("y", "x", 0.8, 0.6, 0.5)], {"y": 5}, "y", {}), rows_of([(0, 3)])
    x = case.weights["table"][rows.tokens].astype(np.float64)
    want = np.where(x > 0, 0.8 * x * x, 0.6 * (np.exp(x) - 1 - x)) + 0.5 * x
    np.testing.assert_allclose(case.by_reference(rows), want, rtol=1e-5, atol=1e-6)
