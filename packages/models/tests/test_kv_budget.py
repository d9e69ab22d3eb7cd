"""Memory for keys and values: from bytes to tokens."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rase_core.errors import InvalidParameter
from rase_core.scheduler import SchedulerLimits
from rase_models.backends import BackendPlace
from rase_models.backends.base import BLOCK_TOKENS, MemoryNeeds
from rase_models.backends.reference import ReferenceBackend
from rase_models.gguf import open_gguf
from rase_models.kv_budget import KvBudget, kv_budget
from rase_models.machine_memory import machine_memory
from rase_models.memory_plan import MemoryPlan, memory_plan


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


def test_a_device_with_less_memory_than_a_context_takes_makes_the_context_shorter() -> None:
    ample = KvBudget(1000, is_firm=False)
    assert ample.within(3000, 300, 10) is ample
    assert ample.within(2999, 300, 10) == KvBudget(2999)
    assert ample.within(0, 300, 10) == KvBudget(300)  # the load says what is missing
    assert KvBudget(1000).within(900, 300, 10) == KvBudget(900)
    assert KvBudget(1000).within(1000, 300, 10) == KvBudget(1000)


class Card(ReferenceBackend):
    """A device with a memory of its own."""

    free = 0

    def memory_needs(self, *_: object, **__: object) -> MemoryNeeds:
        return MemoryNeeds(weights=1000, workspace=500, max_rows=512, free=self.free)


@pytest.fixture
def plan_on(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., MemoryPlan]:
    """Return what plans for the tiny model on a card with so much free memory."""
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])

    def plan(free: int, kv_memory: int | None = None, max_memory: int | None = None) -> MemoryPlan:
        monkeypatch.setattr(Card, "free", free)
        places = {"cuda": BackendPlace(__name__, "Card")}
        return memory_plan(
            open_gguf(tiny_path),
            "cuda",
            None,
            256,
            SchedulerLimits(),
            kv_memory=kv_memory,
            max_memory=max_memory,
            places=places,
        )

    return plan


def test_keys_and_values_get_what_a_device_has_left_and_never_more(
    plan_on: Callable[..., MemoryPlan],
) -> None:
    for free in (1 << 22, 1 << 30, 1 << 40):
        plan = plan_on(free)
        assert 0 < plan.kv <= (free - 1500) * 7 // 8
        assert plan.kv_budget.nbytes > free // 2
    assert plan_on(1 << 30, kv_memory=1 << 40).kv < 1 << 30
    assert plan_on(1 << 30, kv_memory=1 << 20).kv_budget == KvBudget(1 << 20)
    assert plan_on(1 << 40, max_memory=1 << 30).kv <= 1 << 28


def test_a_model_that_has_no_room_on_a_device_is_planned_all_the_same(
    plan_on: Callable[..., MemoryPlan],
) -> None:
    plan = plan_on(100)
    assert (plan.weights, plan.kv_tokens) == (1000, BLOCK_TOKENS)
