"""Ops that carry a state, on the CPU against the reference backend, and that against scalar formulas."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rase_core.errors import BackendFailure
from rase_models.backends.base import Rows
from rase_models.backends.cpu.runner import CpuRunner
from rase_models.backends.reference import ReferenceBackend, ReferenceRunner
from rase_models.gguf import Weight
from rase_models.program import (
    Embed,
    GatedDelta,
    KeyedScan,
    Linear,
    Program,
    SelectiveScan,
    SelectOutputs,
    Shift,
    ShortConv,
    StateScan,
)
from rase_models.testing_cases import TOKENS, Floats, normal, weight

StateOp = GatedDelta | KeyedScan | SelectiveScan | Shift | ShortConv | StateScan

few = settings(max_examples=6)


def rows_of(spans: Sequence[tuple[int, int, int]]) -> Rows:
    """Return rows of spans of (slot, start, count), all of them outputs."""
    sequences = np.repeat(np.arange(len(spans)), [count for _, _, count in spans]).astype(np.int32)
    positions = np.concatenate([np.arange(start, start + count) for _, start, count in spans])
    tokens = (positions * 7 + sequences * 3) % TOKENS
    every, tables = np.arange(len(sequences), dtype=np.int32), np.zeros((0, len(spans), 0), np.int32)
    slots = np.array([slot for slot, _, _ in spans], np.int32)
    return Rows(sequences, positions.astype(np.int32), tokens.astype(np.int32), every, tables, slots)


class Case:
    """A Program that looks up the inputs of one op, each in a table of its own, and gives its output."""

    def __init__(
        self, op: StateOp, inputs: Mapping[str, int], weights: Mapping[str, Floats], state: int
    ) -> None:
        width = inputs[op.x if hasattr(op, "x") else op.v]
        self.tables = {name: normal(index, TOKENS, size) for index, (name, size) in enumerate(inputs.items())}
        self.tables |= {name: np.abs(self.tables[name]) for name in ("step", "beta") if name in inputs}
        if "keep" in inputs:
            self.tables["keep"] = (1 / (1 + np.exp(self.tables["keep"]))).astype(np.float32)
        self.weights = {**self.tables, **weights, "same": np.eye(width, dtype=np.float32)}
        ops = (
            *(Embed(name, name) for name in inputs),
            op,
            SelectOutputs("selected", "out"),
            Linear("logits", "selected", "same"),
        )
        widths = {**inputs, "out": width, "selected": width, "logits": width}
        self.program = Program("test", width, 4096, ops, widths, (), {}, (state,))

    def stream(self) -> Iterator[Weight]:
        for name, values in self.weights.items():
            yield weight(name, values)

    def run(self, runner: CpuRunner | ReferenceRunner, runs: Sequence[Rows]) -> list[Floats]:
        runner.reserve_states(4)
        try:
            return [runner.run(rows) for rows in runs]
        finally:
            runner.close()

    def by_reference(self, runs: Sequence[Rows]) -> list[Floats]:
        return self.run(ReferenceBackend().load(self.program, self.stream()), runs)

    def on_cpu(self, runs: Sequence[Rows], threads: int = 2) -> list[Floats]:
        return self.run(CpuRunner(self.program, self.stream(), threads), runs)

    def check(self, tolerance: float = 1e-4) -> None:
        """Compare with the reference over several runs, and with other ways through the same tokens."""
        runs = [
            rows_of([(2, 0, 5)]),
            rows_of([(0, 0, 9), (2, 5, 4), (1, 0, 1)]),
            rows_of([(1, 1, 1)]),
            rows_of([(2, 9, 30), (0, 0, 2)]),
        ]
        got = self.on_cpu(runs)
        for part, want in zip(got, self.by_reference(runs), strict=True):
            np.testing.assert_allclose(part, want, rtol=tolerance, atol=tolerance)
        for part, alone in zip(got, self.on_cpu(runs, threads=1), strict=True):
            np.testing.assert_array_equal(part, alone)
        whole = self.on_cpu([rows_of([(0, 0, 39)])])[0]
        pieces = self.on_cpu([rows_of([(0, 0, 20)]), *(rows_of([(0, at, 1)]) for at in range(20, 39))])
        np.testing.assert_array_equal(whole, np.concatenate(pieces))


def short_conv(width: int, taps: int, *, biased: bool) -> Case:
    op = ShortConv("out", "x", "w", "b" if biased else None, taps, 0)
    weights = {"w": normal(5, width, taps), "b": normal(6, width)}
    return Case(op, {"x": width}, weights, (taps - 1) * width)


def state_scan(heads: int, groups: int, width: int, size: int) -> Case:
    op = StateScan("out", "x", "b", "c", "step", "decay", "skip", heads, groups, 0)
    inputs = {"x": heads * width, "b": groups * size, "c": groups * size, "step": heads}
    weights = {"decay": -np.abs(normal(5, heads)), "skip": normal(6, heads)}
    return Case(op, inputs, weights, heads * width * size)


def gated_delta(heads: int, key_heads: int, width: int, size: int) -> Case:
    op = GatedDelta("out", "q", "k", "v", "step", "beta", "decay", heads, key_heads, 1e-6, 0)
    inputs = {"q": key_heads * size, "k": key_heads * size, "v": heads * width, "step": heads, "beta": heads}
    case = Case(op, inputs, {"decay": -np.abs(normal(5, heads))}, heads * width * size)
    case.weights["beta"] = np.minimum(case.weights["beta"], 1)
    return case


def shift(width: int) -> Case:
    return Case(Shift("out", "x", 0), {"x": width}, {}, width)


def selective_scan(channels: int, size: int) -> Case:
    op = SelectiveScan("out", "x", "b", "c", "step", "decay", "skip", 0)
    inputs = {"x": channels, "b": size, "c": size, "step": channels}
    weights = {"decay": -np.abs(normal(5, channels, size)), "skip": normal(6, channels)}
    return Case(op, inputs, weights, channels * size)


def keyed_scan(heads: int, width: int, size: int, *, corrects: bool, reads_before: bool) -> Case:
    names: tuple[str | None, str | None] = ("a", "b") if corrects else (None, None)
    op = KeyedScan("out", "q", "k", "v", "keep", heads, 0, *names, scale=0.5, reads_before=reads_before)
    inputs = dict.fromkeys(("q", "k", "keep", *filter(None, names)), heads * size) | {"v": heads * width}
    case = Case(op, inputs, {}, heads * width * size)
    for name in filter(None, names):  # small enough that states do not grow from row to row
        case.weights[name] = case.weights[name] * np.float32(0.4 / size)
    return case


@few
@given(st.integers(1, 50))
def test_rows_are_shifted_along_their_sequence(width: int) -> None:
    shift(width).check()


@few
@given(st.sampled_from([5, 16, 48]), st.sampled_from([1, 7, 16]))
def test_channels_are_scanned(channels: int, size: int) -> None:
    selective_scan(channels, size).check()


@few
@given(
    st.sampled_from([1, 4]),
    st.sampled_from([16, 48]),
    st.sampled_from([5, 16]),
    st.booleans(),
    st.booleans(),
)
def test_states_are_kept_key_by_key(
    heads: int, width: int, size: int, corrects: bool, reads_before: bool
) -> None:
    keyed_scan(heads, width, size, corrects=corrects, reads_before=reads_before).check()


@few
@given(st.integers(1, 50), st.integers(2, 5), st.booleans())
def test_rows_are_convolved_with_those_before(width: int, taps: int, biased: bool) -> None:
    short_conv(width, taps, biased=biased).check()


@few
@given(st.sampled_from([(1, 1), (4, 2), (6, 3)]), st.sampled_from([16, 48]), st.sampled_from([1, 7, 16]))
def test_states_are_scanned(heads: tuple[int, int], width: int, size: int) -> None:
    state_scan(*heads, width, size).check()


@few
@given(st.sampled_from([(1, 1), (4, 2), (6, 3)]), st.sampled_from([16, 48]), st.sampled_from([16, 32]))
def test_states_follow_a_gated_delta_rule(heads: tuple[int, int], width: int, size: int) -> None:
    gated_delta(*heads, width, size).check(tolerance=1e-3)


@pytest.mark.parametrize(
    "case",
    [
        *(state_scan(1, 1, 8, 4), gated_delta(1, 1, 8, 16), gated_delta(1, 1, 16, 8)),
        keyed_scan(1, 8, 4, corrects=False, reads_before=False),
    ],
)
def test_heads_that_are_no_whole_vectors_are_refused(case: Case) -> None:
    with pytest.raises(BackendFailure, match="of 8 values"):
        case.on_cpu([rows_of([(0, 0, 1)])])


def inputs_of(case: Case, rows: Rows, name: str, parts: int) -> NDArray[np.float64]:
    values = case.weights[name].astype(np.float64)[rows.tokens]
    return values.reshape(len(values), parts, -1)


def test_a_convolution_is_a_sum_over_rows() -> None:
    case, rows = short_conv(3, 3, biased=True), rows_of([(0, 0, 6)])
    (got,) = case.by_reference([rows])
    x, w = case.weights["x"].astype(np.float64)[rows.tokens], case.weights["w"]
    for t, channel in np.ndindex(6, 3):
        want = sum(w[channel, j] * x[t - 2 + j, channel] for j in range(3) if t - 2 + j >= 0)
        assert got[t, channel] == pytest.approx(want + case.weights["b"][channel], abs=1e-4)


def test_a_scan_is_a_recurrence_over_rows() -> None:
    case, rows = state_scan(2, 1, 2, 3), rows_of([(0, 0, 5)])
    (got,) = case.by_reference([rows])
    x, b, c = (inputs_of(case, rows, name, parts) for name, parts in (("x", 2), ("b", 1), ("c", 1)))
    step = inputs_of(case, rows, "step", 2)[..., 0]
    for head, i in np.ndindex(2, 2):
        h = [0.0] * 3
        for t in range(5):
            keep = math.exp(step[t, head] * case.weights["decay"][head])
            h = [keep * h[n] + step[t, head] * x[t, head, i] * b[t, 0, n] for n in range(3)]
            want = sum(h[n] * c[t, 0, n] for n in range(3)) + case.weights["skip"][head] * x[t, head, i]
            assert got[t, 2 * head + i] == pytest.approx(want, rel=1e-3, abs=1e-4)


def test_every_channel_has_a_recurrence_of_its_own() -> None:
    case, rows = selective_scan(2, 3), rows_of([(0, 0, 5)])
    (got,) = case.by_reference([rows])
    x, b, c, step = (inputs_of(case, rows, name, 1)[:, 0] for name in ("x", "b", "c", "step"))
    for channel in range(2):
        h = np.zeros(3)
        for t in range(5):
            h *= np.exp(step[t, channel] * case.weights["decay"][channel].astype(np.float64))
            h += step[t, channel] * x[t, channel] * b[t]
            want = h @ c[t] + case.weights["skip"][channel] * x[t, channel]
            assert got[t, channel] == pytest.approx(want, rel=1e-3, abs=1e-4)


def test_a_row_gets_the_one_before() -> None:
    case, runs = shift(3), [rows_of([(1, 0, 3)]), rows_of([(1, 3, 2)])]
    got = np.concatenate(case.by_reference(runs))
    x = case.weights["x"][np.concatenate([rows.tokens for rows in runs])]
    np.testing.assert_array_equal(got, np.concatenate([np.zeros((1, 3)), x[:-1]]))


@pytest.mark.parametrize("reads_before", [False, True])
def test_keys_forget_and_are_corrected_each_for_itself(reads_before: bool) -> None:
    case = keyed_scan(2, 2, 3, corrects=True, reads_before=reads_before)
    rows = rows_of([(0, 0, 5)])
    (got,) = case.by_reference([rows])
    q, k, keep, a, b, v = (inputs_of(case, rows, name, 2) for name in ("q", "k", "keep", "a", "b", "v"))
    for head in range(2):
        h = np.zeros((3, 2))
        for t in range(5):
            before = h
            known = before.T @ a[t, head]
            h = (
                np.diag(keep[t, head]) @ before
                + np.outer(b[t, head], known)
                + np.outer(k[t, head], v[t, head])
            )
            want = 0.5 * (before if reads_before else h).T @ q[t, head]
            np.testing.assert_allclose(got[t, 2 * head : 2 * head + 2], want, rtol=1e-3, atol=1e-4)


def test_a_delta_rule_writes_what_a_key_does_not_know_yet() -> None:
    case, rows = gated_delta(4, 2, 2, 3), rows_of([(0, 0, 5)])
    (got,) = case.by_reference([rows])
    q, k = (inputs_of(case, rows, name, 2) for name in "qk")
    q, k = (x / np.sqrt((x**2).sum(axis=-1, keepdims=True) + 1e-6) for x in (q, k))
    v, step, beta = (inputs_of(case, rows, name, 4) for name in ("v", "step", "beta"))
    for head in range(4):
        h = np.zeros((3, 2))
        for t in range(5):
            h *= math.exp(step[t, head, 0] * case.weights["decay"][head])
            known = h.T @ k[t, head % 2]
            h += np.outer(k[t, head % 2], beta[t, head, 0] * (v[t, head] - known))
            want = h.T @ q[t, head % 2] / math.sqrt(3)
            np.testing.assert_allclose(got[t, 2 * head : 2 * head + 2], want, rtol=1e-3, atol=1e-4)
