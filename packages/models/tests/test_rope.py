"""Rotary frequencies and their scaling, against formulas written out pair by pair."""

import math
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import InvalidGguf
from rase_models.architectures.keys import ArchitectureKeys
from rase_models.architectures.rope import read_rope
from rase_models.architectures.tensors import TensorTable
from rase_models.gguf import GgmlType, GgufFile, TensorInfo
from rase_models.program import Rope, RopePairing

Metadata = dict[str, str | float]


def file_with(metadata: Metadata, path: Path = Path("model.gguf"), divisors: int = 0) -> GgufFile:
    keys = {f"llama.rope.{key}": value for key, value in metadata.items()}
    full = MappingProxyType({"general.architecture": "llama", **keys})
    info = TensorInfo("rope_freqs.weight", GgmlType.F32, (divisors,), 0, 4 * divisors)
    tensors = {info.name: info} if divisors else {}
    return GgufFile(path, (path,), (4 * divisors,), 3, 32, full, MappingProxyType(tensors))


def rope_of(file: GgufFile, head_length: int = 64, context_length: int = 32768) -> Rope:
    return read_rope(
        ArchitectureKeys(file),
        TensorTable(file),
        RopePairing.HALVES,
        head_length=head_length,
        context_length=context_length,
    )


def test_without_metadata_frequencies_fall_from_one_by_the_default_base() -> None:
    rope = rope_of(file_with({}), head_length=8)
    assert rope == Rope(RopePairing.HALVES, 8, rope.frequencies, 1.0)
    assert rope.frequencies == pytest.approx([1.0, 0.1, 0.01, 0.001])


def test_only_the_given_number_of_elements_turns() -> None:
    rope = rope_of(file_with({"dimension_count": 4, "freq_base": 100.0}), head_length=8)
    assert rope.dimensions == 4
    assert rope.frequencies == pytest.approx([1.0, 0.1])


@pytest.mark.parametrize(
    "metadata", [{"scaling.type": "linear", "scaling.factor": 4.0}, {"scale_linear": 4.0}]
)
def test_linear_scaling_divides_every_frequency(metadata: Metadata) -> None:
    assert rope_of(file_with(metadata), 8).frequencies == pytest.approx([0.25, 0.025, 0.0025, 0.00025])


def test_scaling_of_type_none_ignores_the_factor() -> None:
    plain = rope_of(file_with({"scaling.type": "none", "scaling.factor": 4.0}))
    assert plain == rope_of(file_with({}))


def test_a_magnitude_in_the_file_counts() -> None:
    assert rope_of(file_with({"scaling.attn_factor": 1.25})).magnitude == 1.25


def yarn_pair_by_pair(dimensions: int, base: float, factor: float, original: int) -> list[float]:
    """Return the frequencies as the paper's appendix has them, with its alpha 1 and beta 32."""

    def pair_of(turns: float) -> float:
        return dimensions * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(pair_of(32)), 0), min(math.ceil(pair_of(1)), dimensions - 1)
    frequencies = []
    for pair in range(dimensions // 2):
        frequency = base ** (-2 * pair / dimensions)
        interpolated = min(max((pair - low) / max(high - low, 0.001), 0.0), 1.0)
        frequencies.append(interpolated * frequency / factor + (1 - interpolated) * frequency)
    return frequencies


@given(
    half=st.integers(2, 64),
    base=st.floats(100.0, 1e7),
    factor=st.floats(1.0, 64.0),
    original=st.integers(256, 1 << 17),
)
def test_yarn_stretches_the_slow_pairs_only(half: int, base: float, factor: float, original: int) -> None:
    metadata: Metadata = {
        "freq_base": base,
        "scaling.type": "yarn",
        "scaling.factor": factor,
        "scaling.original_context_length": original,
    }
    rope = rope_of(file_with(metadata), 2 * half)
    assert rope.frequencies == pytest.approx(yarn_pair_by_pair(2 * half, base, factor, original), rel=1e-9)
    assert rope.magnitude == pytest.approx(0.1 * math.log(factor) + 1)


@pytest.mark.parametrize("base, beta", [(1.0000001, 32.0), (1e30, 32.0), (1e4, 1e-30), (1e4, 1e30)])
def test_yarn_with_absurd_numbers_still_gives_frequencies(base: float, beta: float) -> None:
    yarn: Metadata = {"freq_base": base, "scaling.type": "yarn", "scaling.factor": 4.0}
    rope = rope_of(file_with(yarn | {"scaling.yarn_beta_fast": beta, "scaling.yarn_beta_slow": beta}))
    assert all(0 < frequency <= 1 for frequency in rope.frequencies)


def test_yarn_takes_the_context_for_the_original_one_when_the_file_does_not_say() -> None:
    yarn: Metadata = {"scaling.type": "yarn", "scaling.factor": 4.0}
    explicit = rope_of(file_with(yarn | {"scaling.original_context_length": 8192}))
    assert rope_of(file_with(yarn), context_length=8192) == explicit


def test_a_log_multiplier_replaces_the_magnitude_of_yarn() -> None:
    yarn: Metadata = {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.yarn_log_multiplier": 1.0}
    assert rope_of(file_with(yarn)).magnitude == 1.0


def test_divisors_of_the_file_slow_the_pairs_down(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(np.array([1, 2, 4, 8], np.float32).tobytes())
    rope = rope_of(file_with({}, path, divisors=4), head_length=8)
    assert rope.frequencies == pytest.approx([1.0, 0.05, 0.0025, 0.000125])


@pytest.mark.parametrize(
    "divisors, found", [([1, 0, 1, 1], "no zeros"), ([1, math.inf, 1, 1], "finite"), ([1, 1], "shape")]
)
def test_divisors_that_cannot_be_are_named(tmp_path: Path, divisors: list[float], found: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(np.array(divisors, np.float32).tobytes())
    with pytest.raises(InvalidGguf, match=f"tensor 'rope_freqs.weight': expected {found}"):
        rope_of(file_with({}, path, divisors=len(divisors)), head_length=8)
