"""Memory for keys and values: from bytes to tokens."""

from pathlib import Path

import pytest
from rase_core.errors import InvalidParameter
from rase_models.backends.base import BLOCK_TOKENS
from rase_models.kv_budget import KvBudget, kv_budget
from rase_models.machine_memory import machine_memory


def test_whole_blocks_fit_into_a_budget() -> None:
    assert KvBudget(1000).tokens(300, 10_000) == 3 * BLOCK_TOKENS
    assert KvBudget(300).tokens(300, 10_000) == BLOCK_TOKENS


def test_a_budget_that_is_not_firm_leaves_room_for_a_context() -> None:
    assert KvBudget(1000, is_firm=False).tokens(300, 6) == 6 * BLOCK_TOKENS
    assert KvBudget(3000, is_firm=False).tokens(300, 1) == 10 * BLOCK_TOKENS


def test_a_model_that_keeps_nothing_has_no_limit() -> None:
    assert KvBudget(1).tokens(0, 100) is None


def test_less_than_a_block_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="invalid kv_memory: 299, expected at least 300 bytes"):
        KvBudget(299).check(300)
    KvBudget(299, is_firm=False).check(300)


def test_the_default_is_a_quarter_of_the_machine() -> None:
    assert kv_budget(None) == KvBudget(machine_memory() // 4, is_firm=False)
    assert kv_budget(7) == KvBudget(7)


@pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
def test_the_limit_of_a_control_group_counts_when_it_is_lower(tmp_path: Path, name: str) -> None:
    own = machine_memory(tmp_path / "none")
    assert own > 1 << 26
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    for text, expected in (("1048576\n", 1 << 20), ("max\n", own), (str(own * 2), own), ("", own)):
        file.write_text(text)
        assert machine_memory(tmp_path) == expected


def test_states_get_a_share_of_their_own_and_a_few_sequences_always_fit() -> None:
    assert KvBudget(8_000).sequences(10) == 100
    assert KvBudget(8_000).sequences(1_000_000) == 4
    assert KvBudget(8_000).sequences(0) is None
