"""Files of registered models are compared with what their manifests say."""

import hashlib
from pathlib import Path

import pytest
from rase_core.errors import (
    IntegrityMismatch,
    ModelFileNotFound,
    ModelNotFound,
)
from rase_core.progress import ProgressEvent
from rase_core.registration import Registration
from rase_core.registry import ModelRegistry


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_tokenizer_can_be_attached_later(registry: ModelRegistry, weights: Path, tmp_path: Path) -> None:
    registry.import_local(weights, "a", Registration(chat_template="chatml"))
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text("{}")
    registry.attach_tokenizer("a", tokenizer)
    manifest = registry.verify("a")
    assert (manifest.tokenizer, manifest.chat_template) == (tokenizer, "chatml")
    tokenizer.write_text("[]")
    with pytest.raises(IntegrityMismatch, match=r"tokenizer\.json"):
        registry.verify("a")
    with pytest.raises(ModelFileNotFound):
        registry.attach_tokenizer("a", tmp_path / "missing")
    with pytest.raises(ModelNotFound):
        registry.attach_tokenizer("b", tokenizer)


def test_verify_tells_what_is_expected_and_found(registry: ModelRegistry, weights: Path) -> None:
    expected = registry.import_local(weights, "a").weights[0].sha256
    events: list[ProgressEvent] = []
    assert registry.verify("a", events.append).id == "a"
    assert events[-1].done == weights.stat().st_size
    data = bytearray(weights.read_bytes())
    data[100] ^= 1
    weights.write_bytes(data)
    with pytest.raises(IntegrityMismatch) as caught:
        registry.verify("a")
    error = caught.value
    assert (error.model_id, error.expected, error.actual) == ("a", expected, sha256(weights))
    weights.unlink()
    with pytest.raises(ModelFileNotFound):
        registry.verify("a")


def test_verify_refuses_a_size_that_is_not_the_files(registry: ModelRegistry, weights: Path) -> None:
    size = registry.import_local(weights, "a").size
    path = registry.store / "manifests" / "a.toml"
    path.write_text(path.read_text().replace(f"size = {size}", "size = 5"))
    with pytest.raises(IntegrityMismatch, match=f"has size {size}, its manifest says 5") as caught:
        registry.verify("a")
    assert (caught.value.path, caught.value.fact) == (weights, "size")


@pytest.mark.parametrize("missing", ["tokenizer.json", "chat.jinja"])
def test_verify_misses_every_file_of_a_model(
    registry: ModelRegistry, weights: Path, tmp_path: Path, missing: str
) -> None:
    for name in ("tokenizer.json", "chat.jinja"):
        (tmp_path / name).write_text("{}")
    registry.import_local(
        weights,
        "a",
        Registration(tokenizer=tmp_path / "tokenizer.json", template_file=tmp_path / "chat.jinja"),
    )
    registry.verify("a")
    (tmp_path / missing).unlink()
    with pytest.raises(ModelFileNotFound, match=missing):
        registry.verify("a")
