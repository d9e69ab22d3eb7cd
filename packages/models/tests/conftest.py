"""Fixtures of the models package's tests."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from rase_models import Engine
from rase_models.constraints import FormatCompiler
from rase_models.gguf import open_gguf
from rase_models.program import Program
from rase_models.testing import write_tiny_model
from rase_models.tokenizers import Tokenizer, tokenizer_from_gguf


@pytest.fixture(scope="session")
def oracle_path() -> Path:
    """The folder of independent reference values, from the environment variable RASE_ORACLE."""
    folder = os.environ.get("RASE_ORACLE")
    if not folder or not Path(folder).is_dir():
        pytest.skip("RASE_ORACLE does not name a folder of reference values")
    return Path(folder)


@pytest.fixture(scope="session")
def oracle_architectures(oracle_path: Path) -> list[Path]:
    """The files of architectures that run, each with reference values beside it."""
    from rase_models.architectures import supported_architectures

    paths = sorted((oracle_path / "architectures").glob("*.gguf"))
    return [path for path in paths if open_gguf(path).architecture in supported_architectures()]


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a complete model of random weights; not to be changed."""
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Program]:
    """A function that builds the Program of a sketch of an architecture after changes to it."""
    from rase_models.testing_sketches import build_sketch

    return partial(build_sketch, tmp_path / "model.gguf")


@pytest.fixture
def engine(tmp_path: Path, tiny_path: Path) -> Iterator[Engine]:
    """An engine on the reference device whose store has the model `tiny`."""
    with Engine(tmp_path / "store", "reference") as engine:
        engine.import_model(tiny_path, "tiny", chat_template="chatml")
        yield engine


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Tokenizer:
    """The tokenizer of the real model."""
    return tokenizer_from_gguf(open_gguf(smollm2_path))


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer) -> FormatCompiler:
    """A compiler of formats for the real model."""
    return FormatCompiler(tokenizer)


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer whose tokens are bytes."""
    return tokenizer_from_gguf(open_gguf(write_tiny_model(tmp_path_factory.mktemp("bytes") / "tiny.gguf")))
