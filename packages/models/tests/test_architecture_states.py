"""What architectures with states make of their files."""

from collections.abc import Callable

import pytest
from rase_core.errors import InvalidGguf
from rase_models.program import Attention, GatedDelta, Program, ShortConv, StateScan
from rase_models.testing_sketches import (
    GROUPS,
    HEADS,
    LENGTH,
    QUERIES,
    SPACE,
    STATE,
    TAPS,
    WIDTH,
)

Build = Callable[..., Program]


def test_mamba2_keeps_rows_and_states_and_no_keys(build: Build) -> None:
    program = build("mamba2")
    convolved = SPACE + 2 * GROUPS * STATE
    assert program.state_sizes == ((TAPS - 1) * convolved, SPACE * STATE) * 2
    assert not program.kv_layers
    scans = [op for op in program.ops if isinstance(op, StateScan)]
    assert [(op.heads, op.groups, op.state) for op in scans] == [(HEADS, GROUPS, 1), (HEADS, GROUPS, 3)]


def test_lfm2_convolves_where_it_has_no_key_heads(build: Build) -> None:
    program = build("lfm2", layers=4)
    kinds = [type(op) for op in program.ops if isinstance(op, Attention | ShortConv)]
    assert kinds == [Attention, ShortConv] * 2
    assert program.state_sizes == ((TAPS - 1) * WIDTH,) * 2


def test_qwen35_knows_its_recurrent_layers_or_counts_to_four(build: Build) -> None:
    kinds = [type(op) for op in build("qwen35").ops if isinstance(op, Attention | GatedDelta)]
    assert kinds == [Attention, GatedDelta]
    with pytest.raises(InvalidGguf, match=r"blk\.0\.attn_qkv"):  # without the key, layer 0 is recurrent
        build("qwen35", {"attention.recurrent_layers": 0})
    with pytest.raises(InvalidGguf, match=r"recurrent_layers': expected 2 bools, found 3"):
        build("qwen35", {"attention.recurrent_layers": [0, 1, 0]})


def test_qwen35_gates_its_attention(build: Build) -> None:
    program = build("qwen35")
    assert program.buffers["attention_gate"] == program.buffers["attended"] == QUERIES
    assert program.buffers["q_and_gate"] == 2 * HEADS * LENGTH


@pytest.mark.parametrize("architecture", ["mamba2", "qwen35"])
@pytest.mark.parametrize(
    "key, value",
    [
        ("ssm.inner_size", 0),
        ("ssm.state_size", 1 << 40),
        ("ssm.time_step_rank", 3),
        ("ssm.group_count", 3),
        ("ssm.conv_kernel", 0),
    ],
)
def test_sizes_of_states_that_cannot_be_are_named(
    build: Build, architecture: str, key: str, value: object
) -> None:
    with pytest.raises(InvalidGguf, match=rf"{architecture}\.{key}': expected"):
        build(architecture, {key: value})


def test_layers_without_heads_are_named_where_there_is_nothing_else(build: Build) -> None:
    with pytest.raises(InvalidGguf, match=r"llama\.attention\.head_count': expected .* found 0"):
        build("llama", {"attention.head_count": 0, "attention.key_length": 16})
