"""A sequence's logits have the same bits whatever the threads, chunks, neighbours, forks and fusion."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rase_models.backends.base import BLOCK_TOKENS, Rows
from rase_models.backends.cpu.packing import PACKED_FORMATS
from rase_models.backends.cpu.run_memory import MAX_ROWS
from rase_models.backends.cpu.runner import CpuRunner
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
from rase_models.testing_blocks import random_blocks

Floats = NDArray[np.float32]

WIDTH, HEADS, KV_HEADS, LENGTH, VOCABULARY = 256, 4, 2, 64, 96
ROPE = Rope(RopePairing.ADJACENT, LENGTH, tuple(100.0 ** (-i / 32) for i in range(32)))
WINDOWS = (None, 40)
GROUPS = len({*WINDOWS, None})


def tensor(name: str, type_: GgmlType, shape: tuple[int, ...], seed: int) -> Weight:
    """Return a weight of random numbers; of a quantised type, of random bytes with small scales."""
    data = random_blocks(type_, shape, seed, limit=0x3F if type_ is GgmlType.BF16 else 0x23).reshape(-1)
    if type_ is GgmlType.F32:
        data = (data.view(np.float32) * np.float32(0.1)).view(np.uint8)
    return Weight(TensorInfo(name, type_, shape, 0, data.size), data)


class Model:
    """A Program under construction, and its weights."""

    def __init__(self) -> None:
        self.types = iter(list(PACKED_FORMATS) * 4)
        self.ops: list[Op] = []
        self.weights: list[Weight] = []
        self.layers: list[KvLayer] = []
        self.buffers = {"x": WIDTH, "h": WIDTH, "t": WIDTH, "y": WIDTH, "logits": VOCABULARY}
        self.buffers |= {"q": WIDTH, "k": KV_HEADS * LENGTH, "v": KV_HEADS * LENGTH}
        self.buffers |= {"gate": WIDTH, "up": WIDTH, "last": WIDTH, "attended": WIDTH}

    def matrix(self, *shape: int, type_: GgmlType | None = None) -> str:
        """Add a matrix of the next type, unless one is given; returns its name."""
        name = f"w{len(self.weights)}"
        self.weights.append(tensor(name, type_ or next(self.types), shape, len(self.weights)))
        return name

    def norm(self, out: str, x: str) -> None:
        """Add a norm."""
        name = f"w{len(self.weights)}"
        self.weights.append(tensor(name, GgmlType.F32, (WIDTH,), len(self.weights)))
        self.ops.append(RmsNorm(out, x, name, 1e-5))

    def attention(self, window: int | None) -> None:
        """Add attention and its residual."""
        self.norm("h", "x")
        for name in "qkv":
            self.ops.append(Linear(name, "h", self.matrix(self.buffers[name], WIDTH)))
        self.ops += [Rotate("q", HEADS, ROPE), Rotate("k", KV_HEADS, ROPE)]
        sizes = (len(self.layers), HEADS, KV_HEADS, LENGTH, LENGTH, 0.125, window)
        self.ops.append(Attention("y", "q", "k", "v", *sizes))
        self.layers.append(KvLayer(KV_HEADS, LENGTH, LENGTH, window))
        self.ops += [Linear("t", "y", self.matrix(WIDTH, WIDTH)), Add("x", "x", "t")]

    def feed_forward(self) -> None:
        """Add a gated network, whose two halves are of one type, and its residual."""
        self.norm("h", "x")
        type_ = next(self.types)
        self.ops.append(Linear("gate", "h", self.matrix(WIDTH, WIDTH, type_=type_)))
        self.ops.append(Linear("up", "h", self.matrix(WIDTH, WIDTH, type_=type_)))
        self.ops.append(GatedActivation("gate", "gate", "up", Activation.SILU))
        self.ops += [Linear("t", "gate", self.matrix(WIDTH, WIDTH)), Add("x", "x", "t")]

    def experts(self, gate: GgmlType, down: GgmlType) -> None:
        """Add a mixture of experts and its residual."""
        self.norm("h", "x")
        router = self.matrix(6, WIDTH, type_=GgmlType.F32)
        one, two, three = (self.matrix(6, WIDTH, WIDTH, type_=type_) for type_ in (gate, gate, down))
        mixture = MoeFfn("t", "h", router, one, two, three, 6, 2, Activation.GELU_TANH)
        self.ops += [mixture, Add("x", "x", "t")]

    def finish(self, head: GgmlType) -> tuple[Program, list[Weight]]:
        """Add the output of the wanted rows."""
        self.ops.append(SelectOutputs("last", "x"))
        self.norm("last", "last")
        self.ops.append(Linear("logits", "last", self.matrix(VOCABULARY, WIDTH, type_=head)))
        program = Program("test", VOCABULARY, 4096, tuple(self.ops), self.buffers, tuple(self.layers))
        return program, self.weights


@cache
def every_type() -> tuple[Program, list[Weight]]:
    """Return a model that has matrices of every type."""
    model = Model()
    model.ops.append(Embed("x", model.matrix(VOCABULARY, WIDTH, type_=GgmlType.Q6_K)))
    for window in WINDOWS:
        model.attention(window)
        model.feed_forward()
    model.attention(None)
    return model.finish(GgmlType.Q8_0)


@cache
def experts() -> tuple[Program, list[Weight]]:
    """Return a model of experts, of quantised types and of floats."""
    model = Model()
    model.ops.append(Embed("x", model.matrix(VOCABULARY, WIDTH, type_=GgmlType.F32)))
    model.experts(GgmlType.Q4_K, GgmlType.Q6_K)
    model.experts(GgmlType.F16, GgmlType.F32)
    return model.finish(GgmlType.F32)


@dataclass(frozen=True)
class Part:
    """The next tokens of one sequence in a run."""

    start: int
    tokens: Sequence[int]
    blocks: Sequence[int]


def rows_of(parts: Sequence[Part]) -> Rows:
    """Return a run of parts of sequences; every row's logits are wanted."""
    counts = [len(part.tokens) for part in parts]
    positions = [part.start + i for part in parts for i in range(len(part.tokens))]
    tokens = [token for part in parts for token in part.tokens]
    return Rows(
        np.repeat(np.arange(len(parts), dtype=np.int32), counts),
        np.array(positions, np.int32),
        np.array(tokens, np.int32),
        np.arange(len(tokens), dtype=np.int32),
        np.array([[part.blocks for part in parts]] * GROUPS, np.int32),
    )


PROMPT = np.random.default_rng(5).integers(0, VOCABULARY, 300).tolist()
OTHER = np.random.default_rng(6).integers(0, VOCABULARY, 300).tolist()
BLOCKS = [7, 2, 9, 4, 0]
OTHER_BLOCKS = [1, 3, 5, 6, 8]
SPARE_BLOCK = 10
LONG = np.random.default_rng(7).integers(0, VOCABULARY, MAX_ROWS).tolist()
LONG_BLOCKS = list(range(11, 19))


RUNNERS: list[CpuRunner] = []


@cache
def runner(kind: str, threads: int, fused: bool, kv_type: KvType = KvType.F16) -> CpuRunner:
    """Return a runner that is kept for all tests."""
    program, weights = {"every type": every_type, "experts": experts}[kind]()
    made = CpuRunner(program, iter(weights), threads, fused=fused, kv_type=kv_type)
    for group in range(len(program.kv_groups)):
        made.reserve(group, max(LONG_BLOCKS) + 1)
    RUNNERS.append(made)
    return made


@cache
def expected(kind: str, kv_type: KvType = KvType.F16) -> Floats:
    """Return the logits of the prompt computed in one run by one thread."""
    logits = runner(kind, 1, True, kv_type).run(rows_of([Part(0, PROMPT, BLOCKS)]))
    assert np.isfinite(logits).all()
    assert len(np.unique(logits.argmax(1))) > 5
    return logits


@pytest.fixture(autouse=True, scope="module")
def closed_runners() -> Iterator[None]:
    yield
    runner.cache_clear()
    expected.cache_clear()
    while RUNNERS:
        RUNNERS.pop().close()


KINDS = st.sampled_from(["every type", "experts"])
CUTS = st.lists(st.integers(1, 299), max_size=6, unique=True).map(sorted)


def computed_in_parts(
    made: CpuRunner,
    cuts: Sequence[int],
    neighbours: Sequence[int],
    blocks: Sequence[int] = BLOCKS,
    start: int = 0,
) -> Floats:
    """Return the prompt's logits from `start` on, cut into runs, with rows of another sequence beside it."""
    bounds = [start, *[cut for cut in cuts if cut > start], len(PROMPT)]
    results, done = [], 0
    for index, (first, last) in enumerate(pairwise(bounds)):
        parts = [Part(first, PROMPT[first:last], blocks)]
        beside = neighbours[index] if index < len(neighbours) else 0
        if beside:
            parts.insert(0, Part(done, OTHER[done : done + beside], OTHER_BLOCKS))
            done += beside
        results.append(made.run(rows_of(parts))[beside:])
    return np.concatenate(results)


@settings(max_examples=30)
@given(KINDS, st.integers(1, 3), st.booleans(), CUTS, st.lists(st.integers(0, 40), max_size=7))
def test_bits_depend_on_the_sequence_alone(
    kind: str, threads: int, fused: bool, cuts: list[int], neighbours: list[int]
) -> None:
    got = computed_in_parts(runner(kind, threads, fused), cuts, neighbours)
    np.testing.assert_array_equal(got, expected(kind))


@settings(max_examples=8)
@given(
    st.sampled_from([KvType.F32, KvType.Q8_0]),
    st.integers(1, 2),
    CUTS,
    st.lists(st.integers(0, 9), max_size=7),
)
def test_so_do_they_with_other_types_of_keys_and_values(
    kv_type: KvType, threads: int, cuts: list[int], neighbours: list[int]
) -> None:
    got = computed_in_parts(runner("every type", threads, True, kv_type), cuts, neighbours)
    np.testing.assert_array_equal(got, expected("every type", kv_type))


@settings(max_examples=5)
@given(KINDS, st.integers(1, 3), st.booleans(), st.integers(1, 299))
def test_one_row_at_a_time_has_the_bits_of_many(kind: str, threads: int, fused: bool, start: int) -> None:
    made = runner(kind, threads, fused)
    cuts = list(range(start, min(start + 12, len(PROMPT))))
    np.testing.assert_array_equal(computed_in_parts(made, cuts, [0] * 5 + [1] * 5), expected(kind))


@settings(max_examples=8)
@given(st.integers(1, 3), st.integers(0, 3), CUTS)
def test_a_copied_block_has_the_bits_of_the_original(threads: int, copied: int, cuts: list[int]) -> None:
    made = runner("every type", threads, True)
    computed_in_parts(made, [], [])
    for group in range(GROUPS):
        made.copy_block(group, BLOCKS[copied], SPARE_BLOCK)
    blocks = [SPARE_BLOCK if index == copied else block for index, block in enumerate(BLOCKS)]
    start = (copied + 1) * BLOCK_TOKENS
    got = computed_in_parts(made, cuts, [], blocks, start)
    np.testing.assert_array_equal(got, expected("every type")[start:])


@pytest.mark.parametrize("kind", ["every type", "experts"])
def test_a_run_of_any_size_has_the_bits_of_the_largest(kind: str) -> None:
    whole = runner(kind, 1, True).run(rows_of([Part(0, LONG, LONG_BLOCKS)]))
    for threads, rows in ((2, 512), (3, 511), (1, 511), (2, 129), (3, 128), (2, 17), (3, 9), (2, 2)):
        got = runner(kind, threads, True).run(rows_of([Part(0, LONG[:rows], LONG_BLOCKS)]))
        np.testing.assert_array_equal(got, whole[:rows])


def test_rubbish_in_a_free_block_is_not_seen() -> None:
    made = runner("every type", 2, True)
    made.run(rows_of([Part(0, OTHER, BLOCKS)]))
    np.testing.assert_array_equal(computed_in_parts(made, [70, 200], []), expected("every type"))
