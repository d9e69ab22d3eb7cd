"""Every op on the CPU, against the reference backend, fused and not."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rase_core.errors import BackendFailure
from rase_models.backends.base import Rows
from rase_models.backends.cpu.runner import CpuRunner
from rase_models.backends.reference import ReferenceBackend
from rase_models.gguf import TensorInfo, Weight
from rase_models.gguf.types import GgmlType
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
    Program,
    RmsNorm,
    Rope,
    RopePairing,
    Rotate,
    SelectOutputs,
)

Floats = NDArray[np.float32]

few = settings(max_examples=8)
SEEDS = st.integers(0, 2**32 - 1)
TOKENS = 40


def weight(name: str, values: Floats) -> Weight:
    """Return a float32 weight as a file would give it."""
    data = np.ascontiguousarray(values, np.float32)
    info = TensorInfo(name, GgmlType.F32, data.shape, 0, data.nbytes)
    return Weight(info, data.reshape(-1).view(np.uint8))


def normal(seed: int, *shape: int, scale: float = 1.0) -> Floats:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def rows_of(sequences: Sequence[tuple[int, int]], outputs: Sequence[int] | None = None) -> Rows:
    """Return rows of sequences of (start, count), each with its own 12 blocks."""
    owners = np.repeat(np.arange(len(sequences)), [count for _, count in sequences]).astype(np.int32)
    positions = np.concatenate([np.arange(start, start + count) for start, count in sequences])
    tables = np.arange(len(sequences) * 12).reshape(-1, 12)[:, ::-1]
    tokens = (positions * 7 + owners * 3) % TOKENS
    wanted = range(len(owners)) if outputs is None else outputs
    return Rows(
        owners,
        positions.astype(np.int32),
        tokens.astype(np.int32),
        np.int32(list(wanted)),
        np.int32(tables[None]),
    )


class Case:
    """A Program that looks `x` up, executes ops, and gives a buffer as its logits."""

    def __init__(
        self,
        width: int,
        ops: Sequence[Op],
        buffers: Mapping[str, int],
        result: str,
        weights: Mapping[str, Floats],
        kv_layers: tuple[KvLayer, ...] = (),
    ) -> None:
        out = {"x": width, **buffers}[result]
        self.weights = {"table": normal(1, TOKENS, width), "same": np.eye(out, dtype=np.float32), **weights}
        last = (SelectOutputs("selected", result), Linear("logits", "selected", "same"))
        widths = {"x": width, "selected": out, "logits": out, **buffers}
        self.program = Program("test", out, 4096, (Embed("x", "table"), *ops, *last), widths, kv_layers)

    def stream(self) -> Iterator[Weight]:
        """Give the weights in order of their names."""
        for name, values in sorted(self.weights.items()):
            yield weight(name, values)

    def on_cpu(
        self, *runs: Rows, threads: int = 2, fused: bool = True, kv_type: KvType = KvType.F16
    ) -> Floats:
        """Return the logits of the last run."""
        runner = CpuRunner(self.program, self.stream(), threads, fused=fused, kv_type=kv_type)
        try:
            for group in range(len(self.program.kv_groups)):
                runner.reserve(group, 64)
            return [runner.run(rows) for rows in runs][-1]
        finally:
            runner.close()

    def by_reference(self, *runs: Rows) -> Floats:
        """Return what the reference backend computes."""
        runner = ReferenceBackend().load(self.program, self.stream())
        for group in range(len(self.program.kv_groups)):
            runner.reserve(group, 64)
        return [runner.run(rows) for rows in runs][-1]

    def check(self, *runs: Rows, tolerance: float = 2e-5, kv_type: KvType = KvType.F16) -> None:
        """Compare with the reference, and the unfused form with the fused one, bit for bit."""
        fused = self.on_cpu(*runs, kv_type=kv_type)
        np.testing.assert_array_equal(self.on_cpu(*runs, fused=False, kv_type=kv_type), fused)
        np.testing.assert_array_equal(self.on_cpu(*runs, threads=1, kv_type=kv_type), fused)
        np.testing.assert_allclose(fused, self.by_reference(*runs), rtol=tolerance, atol=tolerance)


@few
@given(st.integers(1, 100), st.integers(1, 20), st.floats(-3, 3, width=32))
def test_embeddings_are_looked_up_and_scaled(width: int, rows: int, scale: float) -> None:
    Case(width, [Embed("y", "other", scale)], {"y": width}, "y", {"other": normal(2, TOKENS, width)}).check(
        rows_of([(0, rows)])
    )


@few
@given(st.integers(1, 150), st.integers(1, 9))
@example(16, 1)
@example(17, 1)
def test_rows_are_normed(width: int, rows: int) -> None:
    Case(width, [RmsNorm("y", "x", "w", 1e-5)], {"y": width}, "y", {"w": normal(2, width)}).check(
        rows_of([(0, rows)])
    )


@few
@given(st.integers(1, 4), st.sampled_from([16, 32, 80]), st.integers(1, 9))
def test_heads_are_normed_in_place(heads: int, length: int, rows: int) -> None:
    norm = RmsNorm("x", "x", "w", 1e-6, heads)
    Case(heads * length, [norm], {}, "x", {"w": normal(2, length)}).check(rows_of([(0, rows)]))


def test_heads_that_are_no_whole_vectors_are_refused() -> None:
    case = Case(40, [RmsNorm("x", "x", "w", 1e-6, 2)], {}, "x", {"w": normal(2, 20)})
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
    Case(width, [op], {"y": out}, "y", weights).check(rows_of([(0, rows)]))


@few
@given(st.integers(1, 40), st.integers(1, 20), st.booleans(), st.booleans())
def test_a_product_is_added_to_the_residual(width: int, rows: int, biased: bool, swapped: bool) -> None:
    linear = Linear("y", "x", "w", "b" if biased else None)
    add = Add("x", "y", "x") if swapped else Add("x", "x", "y")
    Case(
        width, [linear, add], {"y": width}, "x", {"w": normal(2, width, width), "b": normal(3, width)}
    ).check(rows_of([(0, rows)]))


@few
@given(st.integers(1, 80), st.integers(1, 9))
def test_a_norm_is_added_to_the_residual(width: int, rows: int) -> None:
    ops = [Linear("y", "x", "w"), RmsNorm("y", "y", "n", 1e-5), Add("x", "x", "y")]
    Case(width, ops, {"y": width}, "x", {"w": normal(2, width, width), "n": normal(3, width)}).check(
        rows_of([(0, rows)])
    )


@few
@given(st.integers(1, 40), st.integers(1, 9))
def test_rows_are_added_to_a_third_place(width: int, rows: int) -> None:
    ops = [Linear("y", "x", "w"), Add("z", "x", "y")]
    Case(width, ops, {"y": width, "z": width}, "z", {"w": normal(2, width, width)}).check(
        rows_of([(0, rows)])
    )


@few
@given(
    st.integers(1, 50), st.sampled_from([8, 32, 96]), st.integers(1, 70), st.sampled_from(list(Activation))
)
def test_gates_are_activated(width: int, hidden: int, rows: int, activation: Activation) -> None:
    ops = [
        Linear("gate", "x", "g"),
        Linear("up", "x", "u"),
        GatedActivation("gate", "gate", "up", activation),
        Linear("y", "gate", "d"),
    ]
    weights = {"g": normal(2, hidden, width), "u": normal(3, hidden, width), "d": normal(4, width, hidden)}
    Case(width, ops, {"gate": hidden, "up": hidden, "y": width}, "y", weights).check(
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
    Case(heads * length, [op], {}, "x", {}).check(rows_of([(start, 9)]))


def attention_case(
    heads: int, kv_heads: int, key: int, value: int, window: int | None, *, normed: bool = True
) -> Case:
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
    return Case(32, ops, buffers, "y", {**weights, "n": normal(9, key)}, (layer,))


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
    case.check(rows_of(sequences), tolerance=KV_TOLERANCES[kv_type], kv_type=kv_type)


KV_TOLERANCES = {KvType.F32: 1e-4, KvType.F16: 2e-2, KvType.Q8_0: 0.15}


@pytest.mark.parametrize("kv_type", KvType)
@pytest.mark.parametrize("window", [None, 100, 256, 400])
def test_a_row_attends_over_spans_that_earlier_runs_left(window: int | None, kv_type: KvType) -> None:
    case = attention_case(4, 1, 32, 32, window)
    runs = [rows_of([(0, 300)], []), rows_of([(300, 350)], [0]), rows_of([(650, 1)])]
    case.check(*runs, tolerance=KV_TOLERANCES[kv_type], kv_type=kv_type)


def test_heads_of_other_lengths_are_refused() -> None:
    with pytest.raises(BackendFailure, match="heads of 24 values"):
        attention_case(1, 1, 24, 24, None, normed=False).on_cpu(rows_of([(0, 1)]))


@few
@given(st.lists(st.integers(0, 19), unique=True).map(sorted), st.integers(1, 40))
def test_only_wanted_rows_are_worked_on_further(outputs: list[int], width: int) -> None:
    case = Case(width, [RmsNorm("y", "x", "n", 1e-5)], {"y": width}, "y", {"n": normal(2, width)})
    rows = rows_of([(0, 20)], outputs)
    assert case.on_cpu(rows).shape == (len(outputs), width)
    case.check(rows)


def test_a_program_that_selects_no_rows_is_refused_and_leaves_no_threads() -> None:
    case = Case(16, [], {}, "x", {})
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
    Case(width, [op], {"y": width}, "y", weights).check(rows_of([(0, rows)]), tolerance=5e-4)


def test_among_equal_experts_the_first_is_chosen() -> None:
    op = MoeFfn("y", "x", "r", "g", "u", "d", 4, 2, Activation.SILU)
    weights = {
        "r": np.zeros((4, 32), np.float32),
        "g": normal(1, 4, 32, 32),
        "u": normal(2, 4, 32, 32),
        "d": normal(3, 4, 32, 32),
    }
    Case(32, [op], {"y": 32}, "y", weights).check(rows_of([(0, 5)]), tolerance=1e-2)
