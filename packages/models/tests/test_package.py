"""The package's door: everything is there, and nothing is imported before it is used."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import rase_models

SLOW = ("cupy", "gguf", "huggingface_hub", "jinja2", "llvmlite", "mlx", "numba", "tokenizers", "transformers")


def modules_after(statement: str) -> set[str]:
    program = f"import sys; {statement}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


@pytest.mark.parametrize("name", rase_models.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(rase_models, name).__name__ == name


def test_type_checkers_see_the_names_that_are_there() -> None:
    tree = ast.parse(Path(str(rase_models.__file__)).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}
    assert sorted(homes) == rase_models.__all__ == dir(rase_models)
    for name, module in homes.items():
        assert getattr(rase_models, name) is getattr(import_module(module), name)


def test_other_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Motor'"):
        _ = rase_models.Motor


def test_the_package_imports_nothing() -> None:
    assert not modules_after("import rase_models") & {*SLOW, "numpy", "rase_core"}


@pytest.mark.parametrize("name", ["Engine", "load_decoder", "load_tokenizer"])
def test_the_engine_imports_nothing_slow(name: str) -> None:
    assert not modules_after(f"from rase_models import {name}") & set(SLOW)


def test_the_flat_functions_import_nothing_slow() -> None:
    assert not modules_after("import rase_models.functions") & set(SLOW)


def test_a_model_is_loaded_without_the_libraries_of_other_devices(tiny_path: Path) -> None:
    load = f"from rase_models import load_decoder; load_decoder({str(tiny_path)!r}, 'reference')"
    loaded = modules_after(load)
    assert "rase_models.backends.reference" in loaded
    assert not loaded & {"cupy", "mlx", "numba"}


WITHOUT = """
import sys
sys.modules[{library!r}] = None
from rase_core.errors import BackendUnavailable
from rase_models import load_decoder
try:
    load_decoder({path!r}, {device!r})
except BackendUnavailable as error:
    print(error.advice)
print(load_decoder({path!r}, "reference").vocab_size)
"""


@pytest.mark.parametrize(("device", "library"), [("metal", "mlx"), ("cuda", "cupy")])
def test_without_a_device_s_library_it_says_what_to_do_and_others_work(
    device: str, library: str, tiny_path: Path
) -> None:
    program = WITHOUT.format(device=device, library=library, path=str(tiny_path))
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    advice, size = result.stdout.splitlines()
    assert device in advice or "GPU" in advice or "Apple silicon" in advice
    assert int(size) > 0
