import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import rase_core
from rase_core import errors

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


def test_type_checkers_see_the_names_that_are_there() -> None:
    tree = ast.parse(Path(str(rase_core.__file__)).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}
    assert sorted(homes) == rase_core.__all__
    for name, module in homes.items():
        assert getattr(rase_core, name) is getattr(import_module(module), name)


def test_every_error_is_public() -> None:
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    names = {kind.__name__ for kind in classes if issubclass(kind, errors.EngineError)}
    assert names <= set(rase_core.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rase_core.nothing  # noqa: B018


def test_importing_it_imports_nothing_slow() -> None:
    subprocess.run([sys.executable, "-c", QUICK], check=True)
