import subprocess
import sys

import pytest
import rase_core

QUICK = """
import sys
import rase_core
import rase_core.errors
assert not {"numpy", "tomlkit", "huggingface_hub"} & set(sys.modules)
for name in rase_core.__all__:
    getattr(rase_core, name)
assert not {"tomlkit", "huggingface_hub", "httpx"} & set(sys.modules)
"""


def test_every_public_name_is_there() -> None:
    for name in rase_core.__all__:
        assert getattr(rase_core, name) is not None
    assert dir(rase_core) == rase_core.__all__ == sorted(set(rase_core.__all__))


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rase_core.nothing  # noqa: B018


def test_importing_it_imports_nothing_slow() -> None:
    subprocess.run([sys.executable, "-c", QUICK], check=True)
