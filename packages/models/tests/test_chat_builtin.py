"""Which architectures a built-in template is known for."""

import pytest
from rase_models.architectures import supported_architectures
from rase_models.chat.builtin import builtin_name


@pytest.mark.parametrize("prefix, name", [("qwen", "chatml"), ("gemma", "gemma")])
def test_families_that_write_turns_alike_share_a_template(prefix: str, name: str) -> None:
    family = [known for known in supported_architectures() if known.startswith(prefix) and known != "gemma4"]
    assert len(family) >= 4
    assert {builtin_name(architecture) for architecture in family} == {name}


def test_gemma_4_which_writes_turns_otherwise_than_its_family_has_none() -> None:
    assert builtin_name("gemma4") is None
