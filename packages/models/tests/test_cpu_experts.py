"""The ways of choosing and running experts that few architectures have, on the CPU."""

from collections.abc import Iterator, Mapping

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rase_core.errors import BackendFailure
from rase_models.backends.base import Rows
from rase_models.backends.cpu.runner import CpuRunner
from rase_models.backends.reference import ReferenceBackend
from rase_models.gguf import TensorInfo, Weight
from rase_models.gguf.types import GgmlType
from rase_models.program import (
    Activation,
    Embed,
    Linear,
    MoeFfn,
    Program,
    Scoring,
    SelectOutputs,
    TensorSlice,
)
from rase_models.testing_cases import normal

Floats = NDArray[np.float32]
WIDTH, HIDDEN, EXPERTS = 32, 32, 8


def weights_of(width: int = WIDTH) -> dict[str, Floats]:
    return {
        "table": normal(1, 40, width),
        "r": normal(2, EXPERTS, width, scale=0.3),
        "rb": normal(3, EXPERTS),
        "sb": normal(4, EXPERTS, scale=0.2),
        "g": normal(5, EXPERTS, HIDDEN, width, scale=0.3),
        "gb": normal(6, EXPERTS, HIDDEN),
        "u": normal(7, EXPERTS, HIDDEN, width, scale=0.3),
        "ub": normal(8, EXPERTS, HIDDEN),
        "d": normal(9, EXPERTS, width, HIDDEN, scale=0.3),
        "db": normal(10, EXPERTS, width),
        "gu": normal(11, EXPERTS, 2 * HIDDEN, width, scale=0.3),
        "same": np.eye(width, dtype=np.float32),
    }


def program(op: MoeFfn, width: int = WIDTH) -> Program:
    ops = (Embed("x", "table"), op, SelectOutputs("s", "y"), Linear("logits", "s", "same"))
    slices = {"gu[0]": TensorSlice("gu", 0, HIDDEN), "gu[1]": TensorSlice("gu", HIDDEN, 2 * HIDDEN)}
    return Program("test", width, 100, ops, dict.fromkeys(("x", "y", "s", "logits"), width), (), slices)


def stream(weights: Mapping[str, Floats], quantised: str = "") -> Iterator[Weight]:
    """Yield weights as float32, those with these names as Q8_0."""
    for name, values in weights.items():
        data, type_ = np.ascontiguousarray(values), GgmlType.F32
        if name in tuple(quantised):
            type_ = GgmlType.Q8_0
            data = gguf.quants.quantize(data, gguf.GGMLQuantizationType.Q8_0)
        yield Weight(TensorInfo(name, type_, values.shape, 0, data.nbytes), data.reshape(-1).view(np.uint8))


def rows_of(count: int) -> Rows:
    every = np.arange(count, dtype=np.int32)
    return Rows(np.zeros(count, np.int32), every, every % 40, every, np.zeros((0, 1, 0), np.int32))


def on_cpu(op: MoeFfn, rows: Rows, threads: int = 2, width: int = WIDTH, quantised: str = "") -> Floats:
    runner = CpuRunner(program(op, width), stream(weights_of(width), quantised), threads)
    try:
        return runner.run(rows)
    finally:
        runner.close()


def check(op: MoeFfn, count: int, quantised: str = "", tolerance: float = 5e-4) -> None:
    reference = ReferenceBackend().load(program(op), stream(weights_of(), quantised))
    got = on_cpu(op, rows_of(count), quantised=quantised)
    np.testing.assert_allclose(got, reference.run(rows_of(count)), rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(on_cpu(op, rows_of(count), threads=1, quantised=quantised), got)
    np.testing.assert_array_equal(on_cpu(op, rows_of(1), quantised=quantised)[0], got[0])


@settings(max_examples=8)
@given(
    st.sampled_from(list(Scoring)),
    st.sampled_from([(1, 1), (2, 1), (4, 2), (8, 3)]),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([Activation.SILU, Activation.CLAMPED_SWIGLU]),
    st.integers(1, 30),
)
def test_experts_with_biases_are_chosen_within_groups(
    scoring: Scoring,
    groups: tuple[int, int],
    used: int,
    normalise: bool,
    activation: Activation,
    rows: int,
) -> None:
    op = MoeFfn(
        *("y", "x", "r", "g", "u", "d", EXPERTS, used, activation, normalise, 1.5),
        gate_scales=tuple(range(1, EXPERTS + 1)),
        scoring=scoring,
        groups=groups[0],
        groups_used=groups[1],
        router_bias="rb",
        selection_bias="sb",
        gate_bias="gb",
        up_bias="ub",
        down_bias="db",
    )
    check(op, rows)


@pytest.mark.parametrize("quantised", ["r", "g", "u", "d", "rg", "ru", "gud", "rgud"])
def test_any_of_the_matrices_may_be_quantised(quantised: str) -> None:
    op = MoeFfn(
        "y", "x", "r", "g", "u", "d", EXPERTS, EXPERTS, Activation.SILU
    )  # all: no choice to differ in
    check(op, 20, quantised, tolerance=6e-2)


def test_gates_and_ups_may_share_a_tensor() -> None:
    check(MoeFfn("y", "x", "r", "gu[0]", "gu[1]", "d", EXPERTS, 2, Activation.SILU), 20)


def test_biases_of_results_that_are_no_whole_vectors_are_refused() -> None:
    op = MoeFfn("y", "x", "r", "g", "u", "d", EXPERTS, 2, Activation.SILU, down_bias="db")
    with pytest.raises(BackendFailure, match="biases to experts of 24 values"):
        on_cpu(op, rows_of(1), width=24)
