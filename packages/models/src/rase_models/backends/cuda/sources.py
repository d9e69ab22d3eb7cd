"""The files of kernels, which are part of the package."""

from functools import cache
from importlib.resources import files


@cache
def source_text(name: str) -> str:
    """Return the text of a file of kernels."""
    return files("rase_models.backends.cuda").joinpath("kernels", name).read_text(encoding="utf-8")


@cache
def headers() -> dict[str, str]:
    """Return the text of every header by its name."""
    return {name: source_text(name) for name in _names(".cuh")}


def kernel_files() -> list[str]:
    """Return the names of all files of kernels."""
    return _names(".cu")


def _names(suffix: str) -> list[str]:
    folder = files("rase_models.backends.cuda").joinpath("kernels")
    return sorted(file.name for file in folder.iterdir() if file.name.endswith(suffix))
