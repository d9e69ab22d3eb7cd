"""Bringing models from the hub, with a cache that already holds them."""

import json
from pathlib import Path

import pytest
from huggingface_hub import constants
from rase_core.errors import HubError
from rase_core.manifest import ModelSource
from rase_core.sampling import GenerationConfig
from rase_models import Engine, functions
from rase_models.testing import VOCABULARY

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = GenerationConfig(max_tokens=5, ignore_eos=True)


@pytest.fixture
def snapshot(tmp_path: Path, tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a repository in the cache of the hub, which is offline."""
    cache = tmp_path / "hub"
    folder = cache / "models--maker--tiny-GGUF"
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "blobs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    add_file(snapshot, "tiny-Q8_0.gguf", tiny_path.read_bytes())
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return snapshot


def add_file(snapshot: Path, name: str, content: bytes) -> None:
    blob = snapshot.parents[1] / "blobs" / name
    blob.write_bytes(content)
    (snapshot / name).symlink_to(blob)


def test_a_pulled_model_knows_where_it_came_from_and_answers(snapshot: Path, tmp_path: Path) -> None:
    with Engine(tmp_path / "store", "reference") as engine:
        manifest = engine.pull("maker/tiny-GGUF:Q8_0", None, "tiny", chat_template="chatml")
        assert manifest.source == ModelSource("maker/tiny-GGUF", "tiny-Q8_0.gguf", COMMIT)
        assert manifest.weights_path == snapshot / "tiny-Q8_0.gguf"
        assert manifest.architecture == "llama"
        assert engine.generate("tiny", "Hello", CONFIG).text


def test_a_tokenizer_is_pulled_along(snapshot: Path, tmp_path: Path) -> None:
    vocabulary = {token: i for i, token in enumerate(VOCABULARY)}
    tokenizer = {
        "version": "1.0",
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "a"},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    }
    add_file(snapshot, "tokenizer.json", json.dumps(tokenizer).encode())
    with Engine(tmp_path / "store", "reference") as engine:
        manifest = engine.pull("maker/tiny-GGUF", "tiny-Q8_0.gguf", "tiny", tokenizer_file="tokenizer.json")
        assert manifest.tokenizer == snapshot / "tokenizer.json"
        named = engine.pull("maker/tiny-GGUF", None, "other", tokenizer_repo="maker/tiny-GGUF")
        assert named.tokenizer == manifest.tokenizer
        assert engine.verify("tiny") == manifest


def test_a_file_that_the_repository_does_not_have_is_named(snapshot: Path, tmp_path: Path) -> None:
    with Engine(tmp_path / "store", "reference") as engine:
        with pytest.raises(HubError, match="huge"):
            engine.pull("maker/tiny-GGUF", "huge.gguf", "huge")
        assert engine.list_models() == []


def test_the_flat_function_pulls_too(snapshot: Path, tmp_path: Path) -> None:
    text = functions.pull_model(str(tmp_path / "store"), "maker/tiny-GGUF", "tiny-Q8_0.gguf", "tiny")
    assert f'revision = "{COMMIT}"' in text


def test_broken_manifests_are_listed_beside_the_sound_ones(tmp_path: Path, tiny_path: Path) -> None:
    with Engine(tmp_path / "store", "reference") as engine:
        engine.import_model(tiny_path, "tiny")
        (engine.store / "manifests" / "broken.toml").write_text("id = ")
        assert [manifest.id for manifest in engine.list_models()] == ["tiny"]
        assert [broken.path.name for broken in engine.broken_manifests()] == ["broken.toml"]
