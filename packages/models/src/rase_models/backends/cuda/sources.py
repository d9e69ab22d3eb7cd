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
    folder = files("rase_models.backends.cuda").joinpath("kernels")
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".cuh"))
    return {name: source_text(name) for name in names}
