"""The Metal backend's kernels that attend to a paged cache where it is, run by a C++ compiler."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rase_models import load_decoder
from rase_models.gguf import open_gguf
from rase_models.kv_type import KvType
from rase_models.loading import load_on
from rase_models.program import Attention
from rase_models.testing_sketches import sketch, write_gguf
from rase_models.testing_steps import step

mx = pytest.importorskip("mlx.core", reason="MLX is not installed: pip install 'rase-models[metal]'")

from rase_models.backends.metal import MetalBackend  # noqa: E402
from rase_models.backends.metal.device import Device  # noqa: E402
from rase_models.backends.metal.groups import Group, window_of  # noqa: E402
from rase_models.backends.metal.kernel_maker import Kernel  # noqa: E402
from rase_models.backends.metal.paged_attention import attention_kernels  # noqa: E402
from rase_models.backends.metal.runner import MetalRunner  # noqa: E402
from rase_models.backends.metal.seen import Seen  # noqa: E402
from rase_models.testing_metal import EmulatedFault, Emulation, emulated, has_compiler  # noqa: E402

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no g++ to compile Metal's kernels")

Floats = NDArray[np.floating]
DEVICE = Device(is_gpu=False, dtype=mx.float32, make_kernel=emulated)
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
BLOCK = 64


@dataclass(frozen=True)
class Case:
    """An attention of single rows at some positions."""

    op: Attention
    positions: tuple[int, ...]
    dtype: str = "float32"


def op_of(
    key: int,
    value: int,
    heads: int = 4,
    heads_kv: int = 2,
    window: int | None = None,
    chunked: bool = False,
    soft_cap: float | None = None,
    sinks: str | None = None,
    slopes: tuple[float, ...] = (),
) -> Attention:
    sizes = (heads, heads_kv, key, value)
    return Attention("o", "q", "k", "v", 0, *sizes, 0.3, window, chunked, soft_cap, sinks, slopes)


CASES = {
    "short heads": Case(op_of(5, 3, 1, 1), (0,)),
    "odd heads, several rows": Case(op_of(33, 65, 6, 2), (0, 63, 64, 200)),
    "float16, one KV head": Case(op_of(64, 64, 5, 1), (100, 3), "float16"),
    "a window that begins in the midst of a block": Case(op_of(16, 16, window=70), (0, 69, 70, 190, 400)),
    "a window of one": Case(op_of(16, 16, window=1), (0, 64, 130)),
    "a window in chunks": Case(op_of(16, 8, window=48, chunked=True), (0, 47, 48, 143)),
    "capped scores": Case(op_of(32, 32, soft_cap=2.0), (90,)),
    "slopes": Case(op_of(32, 32, slopes=(0.5, 0.25, 0.1, 0.01)), (90, 10)),
    "sinks": Case(op_of(32, 32, sinks="sinks"), (90, 0)),
    "all of it": Case(
        op_of(40, 24, window=70, soft_cap=3.0, slopes=(0.1,) * 4, sinks="s"), (190, 1), "float16"
    ),
    "more blocks than SIMD groups": Case(op_of(4, 4, 1, 1), (66 * BLOCK,)),
}


def found_by(case: Case, make: Emulation) -> tuple[Floats, Floats]:
    """Return what the kernels find, and what they should: [rows, heads, value length]."""
    op, rows, rng = case.op, len(case.positions), np.random.default_rng(5)
    most = max(case.positions) // BLOCK + 1
    table = 1 + rng.permutation(rows * most).reshape(rows, most).astype(np.int32)
    q = rng.standard_normal((rows, op.head_count, op.key_length)).astype(np.float32)
    shape = (rows * most + 1, BLOCK, op.head_count_kv)
    keys, values = (
        rng.standard_normal((*shape, n)).astype(case.dtype) for n in (op.key_length, op.value_length)
    )
    sinks = None if op.sinks is None else rng.standard_normal(op.head_count).astype(np.float32)
    positions = np.array(case.positions)[:, None]
    group = Group(np.arange(rows)[:, None], np.arange(rows), positions)
    seen = Seen(window_of(group, table, op.window, op.chunked))
    cached = mx.array(spoilt(keys, case, table)), mx.array(spoilt(values, case, table))
    given_sinks = None if sinks is None else mx.array(sinks)
    found = attention_kernels(make).attend(op, mx.array(q), cached, seen, given_sinks)
    wanted = [
        attended(op, q[row], case.positions[row], table[row], keys, values, sinks) for row in range(rows)
    ]
    return np.array(found), np.stack(wanted)


def spoilt(cached: Floats, case: Case, table: NDArray[np.int32]) -> Floats:
    """Return a cache with no numbers in all places that no row sees."""
    kept = np.full_like(cached, np.nan)
    for row, position in enumerate(case.positions):
        seen = visible(case.op, position)
        places = table[row][seen // BLOCK], seen % BLOCK
        kept[places] = cached[places]
    return kept


def visible(op: Attention, position: int) -> NDArray[np.int64]:
    window = op.window or position + 1
    first = position // window * window if op.chunked else max(0, position + 1 - window)
    return np.arange(first, position + 1)


def attended(
    op: Attention,
    q: Floats,
    position: int,
    table: NDArray[np.int32],
    keys: Floats,
    values: Floats,
    sinks: Floats | None,
) -> Floats:
    seen = visible(op, position)
    repeats = op.head_count // op.head_count_kv
    places = table[seen // BLOCK], seen % BLOCK
    keys, values = (np.repeat(array[places], repeats, axis=1).astype(np.float64) for array in (keys, values))
    scores = np.einsum("hd,phd->hp", q, keys) * op.scale
    if op.soft_cap:
        scores = op.soft_cap * np.tanh(scores / op.soft_cap)
    if op.slopes:
        scores = scores - np.array(op.slopes)[:, None] * (position - seen)
    weights = np.exp(scores)
    total = weights.sum(axis=1) + (0 if sinks is None else np.exp(sinks.astype(np.float64)))
    return np.asarray(np.einsum("hp,phd->hd", weights / total[:, None], values))


@pytest.mark.parametrize("name", CASES)
def test_rows_attend_to_what_they_see_and_read_nothing_else(name: str) -> None:
    found, wanted = found_by(CASES[name], emulated)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", [1, 7])
def test_attention_does_not_depend_on_the_order_of_threads(seed: int) -> None:
    case = CASES["odd heads, several rows"]
    np.testing.assert_array_equal(found_by(case, Emulation(seed))[0], found_by(case, emulated)[0])


@dataclass(frozen=True)
class Rewriting:
    """Makes kernels whose text is changed before."""

    old: str
    new: str

    def __call__(
        self, name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str
    ) -> Kernel:
        return emulated(name, input_names, output_names, source.replace(self.old, self.new), header)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("position <= end", "position < end"),
        ("max(first, block * TOKENS)", "block * TOKENS"),
        ("sums[i] * keep", "sums[i]"),
        ("head / (heads / heads_kv)", "head % heads_kv"),
        ("exp(sink - peak)", "0.0f"),
        ("if (e < VALUE) partial", "partial"),
        ("score = simd_sum(score);", ""),
    ],
)
def test_attention_that_is_wrong_is_not_relied_on(
    old: str, new: str, caplog: pytest.LogCaptureFixture
) -> None:
    device = replace(DEVICE, make_kernel=Rewriting(old, new))
    try:
        assert device.attention(20, 12, mx.float32) is None
        assert "the kernel for attention with heads of 20 and 12 is off by" in caplog.text
    except EmulatedFault as fault:
        assert "outside of an allocation" in str(fault)
    assert DEVICE.attention(20, 12, mx.float32) is attention_kernels(emulated)


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "gpt-oss", "deepseek2", "mpt", "gemma3n"])
def test_models_decode_in_place_as_on_the_reference(architecture: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", architecture, *sketch(architecture))
    decoder = load_on(MetalBackend(DEVICE), open_gguf(path), kv_type=KvType.F32)
    runner = decoder._runner
    assert isinstance(runner, MetalRunner)
    assert all(cache.kernels is not None for cache in runner._caches)
    wanted = np.asarray(load_decoder(path, device="reference").logits([*TOKENS, 7]))
    first, second = decoder.new_sequence(), decoder.new_sequence()
    step(decoder, (first, 0, TOKENS), (second, 0, TOKENS[:4]))
    third = decoder.fork(first, len(TOKENS))
    found = step(decoder, (third, len(TOKENS), [7]), (second, 4, TOKENS[4:]), (first, len(TOKENS), [7]))
    np.testing.assert_allclose(found, wanted[[-1, -2, -1]], rtol=0, atol=1e-4 * np.abs(wanted).max())
