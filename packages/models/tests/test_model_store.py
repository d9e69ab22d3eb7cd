"""Bringing models from the hub, with a cache that already holds them."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rase_core.errors import (
    EngineError,
    HubError,
    InvalidManifest,
    InvalidModelId,
    InvalidParameter,
    ModelExists,
    StoreError,
    TemplateError,
    UnsupportedArchitecture,
)
from rase_core.hub import Hub
from rase_core.manifest import ModelSource
from rase_core.neighbours import FoundModel
from rase_core.progress import ProgressEvent
from rase_core.sampling import GenerationConfig
from rase_models import Engine
from rase_models.model_store import ModelStore
from rase_models.testing import VOCABULARY, write_tiny_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = GenerationConfig(max_tokens=5, ignore_eos=True)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "home" / "hub"


@pytest.fixture
def snapshot(cache: Path, tiny_path: Path) -> Path:
    """The folder of a repository in the cache of a hub."""
    folder = cache / "models--maker--tiny-GGUF"
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "blobs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    add_file(snapshot, "tiny-Q8_0.gguf", tiny_path.read_bytes())
    return snapshot


@pytest.fixture
def store(tmp_path: Path, cache: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", hub=Hub(cache=cache, offline=True))


def add_file(snapshot: Path, name: str, content: bytes) -> None:
    blob = snapshot.parents[1] / "blobs" / name
    blob.write_bytes(content)
    (snapshot / name).symlink_to(blob)


def test_a_pulled_model_knows_where_it_came_from_and_answers(snapshot: Path, store: ModelStore) -> None:
    manifest = store.pull("maker/tiny-GGUF:Q8_0", None, "tiny", chat_template="chatml")
    assert manifest.source == ModelSource("maker/tiny-GGUF", "tiny-Q8_0.gguf", COMMIT)
    assert manifest.weights_path == snapshot / "tiny-Q8_0.gguf"
    assert manifest.architecture == "llama"
    with Engine(store.store, "reference") as engine:
        assert engine.generate("tiny", "Hello", CONFIG).text


def test_a_tokenizer_is_pulled_along(snapshot: Path, store: ModelStore) -> None:
    vocabulary = {token: i for i, token in enumerate(VOCABULARY)}
    tokenizer = {
        "version": "1.0",
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "a"},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    }
    add_file(snapshot, "tokenizer.json", json.dumps(tokenizer).encode())
    manifest = store.pull("maker/tiny-GGUF", "tiny-Q8_0.gguf", "tiny", tokenizer_file="tokenizer.json")
    assert manifest.tokenizer == snapshot / "tokenizer.json"
    named = store.pull("maker/tiny-GGUF", None, "other", tokenizer_repo="maker/tiny-GGUF")
    assert named.tokenizer == manifest.tokenizer
    assert store.verify("tiny") == manifest


def test_a_file_that_the_repository_does_not_have_is_named(snapshot: Path, store: ModelStore) -> None:
    with pytest.raises(HubError, match="huge"):
        store.pull("maker/tiny-GGUF", "huge.gguf", "huge")
    assert store.list_models() == []


@pytest.mark.parametrize(
    ("model_id", "changes", "error"),
    [
        ("../evil", {}, InvalidModelId),
        ("TINY", {}, InvalidModelId),
        ("broken", {}, InvalidManifest),
        ("new", {"context_length": 0}, InvalidParameter),
        ("new", {"architecture": "perceptron"}, UnsupportedArchitecture),
        ("new", {"chat_template": "chatlm"}, TemplateError),
    ],
)
def test_a_request_that_cannot_be_met_downloads_nothing(
    snapshot: Path, store: ModelStore, model_id: str, changes: dict[str, Any], error: type[EngineError]
) -> None:
    store.pull("maker/tiny-GGUF", None, "tiny")
    (store.store / "manifests" / "broken.toml").write_text("id = ")
    with pytest.raises(error):  # and no HubError: there is no such repository
        store.pull("maker/nothing", "x.gguf", model_id, **changes)


def test_a_model_that_is_pulled_again_is_brought_up_to_date_and_keeps_what_was_set(
    snapshot: Path, store: ModelStore, tiny_path: Path
) -> None:
    store.pull("maker/tiny-GGUF", None, "tiny", chat_template="chatml")
    store.add_alias("tiny", "gpt-4o")
    newer = snapshot.with_name("f" * 40)
    newer.mkdir()
    add_file(newer, "tiny-Q8_0.gguf", tiny_path.read_bytes() + bytes(32))
    (snapshot.parents[1] / "refs" / "main").write_text(newer.name)
    manifest = store.pull("maker/tiny-GGUF", None, "tiny")
    assert manifest.source is not None and manifest.source.revision == newer.name
    assert manifest.weights_path == newer / "tiny-Q8_0.gguf"
    assert (manifest.chat_template, manifest.aliases) == ("chatml", ("gpt-4o",))


def test_an_id_that_is_another_models_is_found_out_before_the_download(
    snapshot: Path, store: ModelStore, tmp_path: Path
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(write_tiny_model(tmp_path / "tiny.gguf").read_bytes() + bytes(32))
    before = store.import_model(other, "tiny", chat_template="chatml")
    told: list[ProgressEvent] = []
    hearing = ModelStore(store.store, hub=Hub(cache=snapshot.parents[2], offline=True), progress=told.append)
    with pytest.raises(ModelExists, match=re.escape(str(other))):
        hearing.pull("maker/tiny-GGUF", None, "tiny")
    assert (told, store.inspect("tiny")) == ([], before)
    manifest = store.pull("maker/tiny-GGUF", None, "tiny", replace=True)
    assert manifest.weights_path == snapshot / "tiny-Q8_0.gguf"
    assert manifest.chat_template is None


def test_a_model_of_another_program_stays_as_it_was_registered(
    store: ModelStore, tiny_path: Path, tmp_path: Path
) -> None:
    found = FoundModel(name="tiny:1b", path=tiny_path, size=tiny_path.stat().st_size, defaults={"top_k": 3})
    first = store.import_found(found)
    assert (first.id, first.aliases, first.defaults) == ("tiny-1b", ("tiny:1b",), {"top_k": 3})
    store.import_model(tiny_path, "tiny-1b", defaults={"top_k": 5}, chat_template="chatml")
    store.remove_alias("tiny-1b", "tiny:1b")
    mine = store.inspect("tiny-1b")
    assert store.import_found(found) == mine
    path = store.store / "manifests" / "tiny-1b.toml"
    path.write_text(path.read_text().replace("size = ", "size = 0."))  # which cannot be read
    assert store.import_found(found) == mine
    other = write_tiny_model(tmp_path / "other.gguf", seed=2)
    newer = dataclasses.replace(found, path=other, size=other.stat().st_size + 1)
    with pytest.raises(ModelExists):
        store.import_found(newer)
    assert store.import_found(newer, replace=True).aliases == ("tiny:1b",)


def test_a_store_that_cannot_be_written_is_found_out_before_the_download(
    snapshot: Path, cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    store = ModelStore(tmp_path / "file", hub=Hub(cache=cache, offline=True))
    with pytest.raises(StoreError, match="file"):
        store.pull("maker/nothing", "x.gguf", "tiny")


def test_the_flat_function_pulls_too(snapshot: Path, cache: Path, tmp_path: Path) -> None:
    code = """
import sys
from rase_models import functions
print(functions.pull_model(sys.argv[1], "maker/tiny-GGUF", "tiny-Q8_0.gguf", "tiny"))
"""
    environment = {**os.environ, "HF_HOME": str(cache.parent), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    finished = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert f'revision = "{COMMIT}"' in finished.stdout


def test_broken_manifests_are_listed_beside_the_sound_ones(tmp_path: Path, tiny_path: Path) -> None:
    with Engine(tmp_path / "store", "reference") as engine:
        engine.import_model(tiny_path, "tiny")
        (engine.store / "manifests" / "broken.toml").write_text("id = ")
        assert [manifest.id for manifest in engine.list_models()] == ["tiny"]
        assert [broken.path.name for broken in engine.broken_manifests()] == ["broken.toml"]
