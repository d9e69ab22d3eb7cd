from collections.abc import Iterator
from pathlib import Path

import pytest
from rase_core.hub import Hub
from rase_core.registry import ModelRegistry
from rase_core.testing_hub import LocalHub, local_hub


@pytest.fixture
def registry(tmp_path: Path) -> ModelRegistry:
    return ModelRegistry(tmp_path / "store")


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(range(256)) * 16)
    return path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """A server that answers as Hugging Face does; nothing of the environment leads elsewhere."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with local_hub() as hub:
        yield hub


@pytest.fixture
def pauses() -> list[float]:
    """The pauses that `hub` makes, which take no time."""
    return []


@pytest.fixture
def hub(server: LocalHub, tmp_path: Path, pauses: list[float]) -> Hub:
    return Hub(endpoint=server.url, cache=tmp_path / "cache", pause=pauses.append)
