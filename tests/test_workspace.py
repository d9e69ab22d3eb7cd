"""The promises of the workspace as a whole: one version, light imports, small files."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("core", "models", "api", "cli")
SOURCES = [path for name in PACKAGES for path in (ROOT / "packages" / name / "src").rglob("*.py")]
HEAVY = ("numba", "llvmlite", "mlx", "cupy", "gguf", "transformers", "huggingface_hub", "torch")


def project(name: str) -> dict[str, Any]:
    """Read the [project] table of a package."""
    table: dict[str, Any] = settings(ROOT / "packages" / name)["project"]
    return table


def settings(folder: Path) -> dict[str, Any]:
    """Read a folder's pyproject.toml."""
    return tomllib.loads((folder / "pyproject.toml").read_text())


def test_all_packages_have_one_version() -> None:
    assert len({project(name)["version"] for name in PACKAGES}) == 1


@pytest.mark.parametrize("name", PACKAGES)
def test_siblings_are_pinned_to_the_version(name: str) -> None:
    table = project(name)
    needs = [need for need in table["dependencies"] if need.startswith("rase-")]
    assert all(need.endswith(f"=={table['version']}") for need in needs), needs


@pytest.mark.parametrize("name", PACKAGES)
def test_the_tests_of_a_package_need_no_other_versions_than_those_of_the_workspace(name: str) -> None:
    groups = settings(ROOT)["dependency-groups"]
    own = settings(ROOT / "packages" / name)["dependency-groups"]["test"]
    assert set(own) <= {*groups["test"], *groups["demo"]}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_brings_the_license(name: str) -> None:
    assert (ROOT / "packages" / name / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_is_typed(name: str) -> None:
    assert (ROOT / "packages" / name / "src" / f"rase_{name}" / "py.typed").exists()


@pytest.mark.parametrize("name", PACKAGES)
def test_importing_a_package_loads_no_heavy_library(name: str) -> None:
    code = f"import rase_{name}, sys; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_source_file_is_small_and_says_what_it_knows(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    assert not text.strip() or ast.get_docstring(ast.parse(text))
    assert path.stem not in {"utils", "util", "helpers", "common", "misc"}
