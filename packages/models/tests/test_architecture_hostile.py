"""What metadata that cannot be does to every architecture: an error with a name, or a sound Program."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import EngineError
from rase_models.architectures import build_program, supported_architectures
from rase_models.gguf import GgufFile, MetadataValue, open_gguf
from rase_models.program import Program, Rope
from rase_models.testing_sketches import sketch, write_gguf

LAYERS = 2
HOSTILE: tuple[MetadataValue, ...] = (
    *(0, 1, 2, 3, 7, -1, -7, 1 << 24, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
    *(0.0, -0.0, 0.5, -1.0, 5e-324, 1e-45, 1e-30, 1e30, 1e308, math.nan, math.inf, -math.inf),
    *(True, False, "", "yarn", "longrope", "none", "x" * 100_000, "\udcff", (), ("a",), ("a", "b")),
    *(np.zeros(0, np.int32), np.zeros(LAYERS, np.int32), np.array([0, 1]), np.array([1, 0])),
    *(np.array([-1, 1]), np.array([1 << 63, 1 << 63], np.uint64), np.array([1, 2, 3])),
    *(np.full(100_000, 1), np.array([math.nan, math.inf]), np.array([0.5, -math.inf])),
    *(np.array([True, False]), np.array([False, True]), np.array([True] * 3)),
)
SOME = 9
"""Every so many-th value is tried with each key by the quick test, beginning with another one each time."""


class Asked(dict[str, MetadataValue]):
    """Metadata that remember which keys were asked for."""

    def __init__(self, values: Mapping[str, MetadataValue]) -> None:
        super().__init__(values)
        self.asked: dict[str, None] = {}

    def __contains__(self, key: object) -> bool:
        self.asked[str(key)] = None
        return super().__contains__(key)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sketches")


@cache
def opened(folder: Path, architecture: str) -> GgufFile:
    """Return a sketch of two layers."""
    path = folder / f"{architecture}.gguf"
    return open_gguf(write_gguf(path, architecture, *sketch(architecture, LAYERS)))


@cache
def asked_keys(folder: Path, architecture: str) -> tuple[str, ...]:
    """Return the keys of metadata that an architecture reads, whether its sketch has them or not."""
    file = opened(folder, architecture)
    metadata = Asked(file.metadata)
    build_program(replace(file, metadata=metadata))
    return tuple(key for key in {**metadata.asked, **file.metadata} if not key.startswith("general."))


def try_with(file: GgufFile, changes: Mapping[str, MetadataValue]) -> None:
    """Build a Program with other metadata, which must be sound, or fail with an error that says where."""
    try:
        program = build_program(replace(file, metadata={**file.metadata, **changes}))
    except EngineError as error:
        assert "metadata '" in str(error) or "tensor '" in str(error), changes
        assert len(str(error)) < 1000, changes
        return
    check_sound(program, file)


def check_sound(program: Program, file: GgufFile) -> None:
    """Check that numbers can be computed with, and that no size is larger than what the tensors hold."""
    held = sum(math.prod(info.shape) for info in file.tensors.values())
    assert len(program.ops) < 100 * len(file.tensors) * LAYERS
    assert max(program.buffers.values()) <= held
    assert max((layer.values for layer in program.kv_layers), default=0) <= held
    assert max(program.state_sizes, default=0) <= held
    for number in numbers_of(program.ops):
        assert abs(number) < 1 << 63 if isinstance(number, int) else math.isfinite(number)
    for rope in (value for op in program.ops for value in vars_of(op) if isinstance(value, Rope)):
        assert rope.dimensions == 2 * len(rope.frequencies)


def vars_of(value: object) -> list[object]:
    assert is_dataclass(value)
    return [getattr(value, field.name) for field in fields(value)]


def numbers_of(value: object) -> Iterator[int | float]:
    """Yield all numbers in ops."""
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from numbers_of(item)
    elif is_dataclass(value):
        yield from numbers_of(tuple(vars_of(value)))


@pytest.mark.parametrize("architecture", supported_architectures())
def test_a_hostile_value_is_an_error_with_a_name_or_does_no_harm(folder: Path, architecture: str) -> None:
    file = opened(folder, architecture)
    for first, key in enumerate(asked_keys(folder, architecture)):
        for value in HOSTILE[first % SOME :: SOME]:
            try_with(file, {key: value})


@pytest.mark.slow
@pytest.mark.parametrize("architecture", supported_architectures())
def test_no_hostile_value_of_any_key_does_harm(folder: Path, architecture: str) -> None:
    file = opened(folder, architecture)
    for key in asked_keys(folder, architecture):
        for value in HOSTILE:
            try_with(file, {key: value})


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_hostile_values_together_do_no_harm(folder: Path, data: st.DataObject) -> None:
    architecture = data.draw(st.sampled_from(supported_architectures()))
    keys = st.sampled_from(asked_keys(folder, architecture))
    values = st.integers(0, len(HOSTILE) - 1).map(HOSTILE.__getitem__)
    changes = data.draw(st.dictionaries(keys, values, min_size=2, max_size=5))
    try_with(opened(folder, architecture), changes)


def test_the_keys_that_an_architecture_reads_are_known(folder: Path) -> None:
    keys = asked_keys(folder, "llama")
    assert {"llama.block_count", "llama.rope.freq_base", "llama.attention.sliding_window"} <= set(keys)
