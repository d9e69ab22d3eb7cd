"""What the engine finds out about a model when it is registered, and what it refuses."""

from pathlib import Path

import pytest
from rase_core.errors import (
    ArchitectureMismatch,
    InvalidParameter,
    ModelNotFound,
    TemplateError,
    TokenizerError,
    UnsupportedArchitecture,
    UnsupportedFormat,
)
from rase_core.registry import ModelRegistry
from rase_core.sampling import GenerationConfig
from rase_models import Engine
from rase_models.testing import write_tiny_model

CONFIG = GenerationConfig(max_tokens=20, seed=7, ignore_eos=True)
HELLO = [{"role": "user", "content": "Hello"}]


def test_a_file_tells_its_architecture_and_context_when_it_is_registered(engine: Engine) -> None:
    manifest = engine.inspect("tiny")
    assert (manifest.architecture, manifest.context_length) == ("llama", 128)
    assert [model.id for model in engine.list_models()] == ["tiny"]
    assert engine.verify("tiny") == manifest


@pytest.mark.parametrize(
    ("alias", "marker"),
    [
        ("llama3", "<|start_header_id|>"),
        ("llama2", "[INST]"),
        ("mistral", "[INST]"),
        ("mixtral", "[INST]"),
        ("llama", "[INST]"),
    ],
)
def test_an_alias_is_recorded_and_chooses_the_template(
    engine: Engine, tiny_path: Path, alias: str, marker: str
) -> None:
    engine.import_model(tiny_path, "alias", architecture=alias)
    assert engine.inspect("alias").architecture == alias
    assert marker in engine.render("alias", HELLO)


def test_an_architecture_that_contradicts_the_file_is_refused(engine: Engine, tiny_path: Path) -> None:
    with pytest.raises(ArchitectureMismatch, match="is 'llama', not 'qwen2'"):
        engine.import_model(tiny_path, "other", architecture="qwen2")
    with pytest.raises(ModelNotFound, match=r"\(registered: tiny\)"):
        engine.inspect("other")


def test_a_file_that_claims_an_endless_context_runs(engine: Engine, tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "endless.gguf", context_length=3_000_000_000)
    assert len(engine.generate_file(path, None, "Hello", CONFIG).tokens) == 20
    assert engine.import_model(path, "endless").context_length == 2**31 - 1
    assert len(engine.generate("endless", "Hello", CONFIG).tokens) == 20


def test_an_unsupported_architecture_is_refused_at_registration(
    engine: Engine, tiny_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / "zebra.gguf"
    path.write_bytes(tiny_path.read_bytes().replace(b"llama", b"zebra"))
    with pytest.raises(UnsupportedArchitecture, match="'zebra'") as caught:
        engine.import_model(path, "zebra")
    assert "llama" in caught.value.supported


def test_a_vocabulary_that_cannot_be_used_is_refused_at_registration_and_by_verify(
    engine: Engine, tiny_path: Path, tmp_path: Path
) -> None:
    length = (3).to_bytes(8, "little")
    path = tmp_path / "broken.gguf"
    path.write_bytes(tiny_path.read_bytes().replace(length + b"h e", length + b"h \x01"))
    with pytest.raises(TokenizerError) as caught:
        engine.import_model(path, "broken")
    with pytest.raises(ModelNotFound):
        engine.inspect("broken")
    ModelRegistry(engine.store).import_local(path, "broken")  # as an earlier version left it
    with pytest.raises(TokenizerError) as found:
        engine.verify("broken")
    assert found.value.message == caught.value.message


def test_a_file_that_is_no_model_is_refused_at_registration(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "page.gguf"
    path.write_text("<!doctype html><html>")
    with pytest.raises(UnsupportedFormat):
        engine.import_model(path, "page")


def test_a_context_longer_than_the_model_s_is_refused_at_registration(
    engine: Engine, tiny_path: Path
) -> None:
    with pytest.raises(InvalidParameter, match="context_length: 129, expected 1 to 128"):
        engine.import_model(tiny_path, "long", context_length=129)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("chatlm", "unknown chat template 'chatlm'"),
        ("{% for", "line 1"),
        ("{{ " * 30_000, "more than 65536"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_at_registration(
    engine: Engine, tiny_path: Path, tmp_path: Path, template: str, reason: str
) -> None:
    file = tmp_path / "chat.jinja"
    file.write_text(template)
    with pytest.raises(TemplateError, match=reason):
        engine.import_model(tiny_path, "other", chat_template=template)
    with pytest.raises(TemplateError, match=reason):
        engine.import_model(tiny_path, "other", template_file=file)
    with pytest.raises(TemplateError, match=reason):
        engine.pull("nobody/nothing", None, "other", chat_template=template)  # before anything is downloaded
    file.write_bytes(b"\xff")
    with pytest.raises(TemplateError, match=r"chat\.jinja: not UTF-8"):
        engine.import_model(tiny_path, "other", template_file=file)
    assert [model.id for model in engine.list_models()] == ["tiny"]
