import hashlib
import os
import shutil
from pathlib import Path

import pytest
from rase_core.errors import (
    ArchitectureMismatch,
    IntegrityMismatch,
    InvalidGenerationConfig,
    InvalidGguf,
    InvalidManifest,
    InvalidModelId,
    InvalidParameter,
    ModelFileNotFound,
    ModelNotFound,
    StoreError,
    UnsupportedFormat,
)
from rase_core.manifest import ModelKind, ModelSource
from rase_core.progress import ProgressEvent
from rase_core.registration import ModelFacts, Registration
from rase_core.registry import ModelRegistry


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def manifest_path(registry: ModelRegistry, model_id: str) -> Path:
    return registry.store / "manifests" / f"{model_id}.toml"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_model_is_registered_in_place_and_found_again(registry: ModelRegistry, weights: Path) -> None:
    before = snapshot(weights.parent)
    manifest = registry.import_local(weights, "tiny")
    assert registry.get("tiny") == manifest
    assert (manifest.weights_path, manifest.size) == (weights, weights.stat().st_size)
    assert manifest.weights[0].sha256 == sha256(weights)
    assert (registry.list(), registry.broken()) == ((manifest,), ())
    shutil.rmtree(registry.store)
    assert snapshot(weights.parent) == before


def test_looking_at_an_empty_store_makes_nothing(registry: ModelRegistry) -> None:
    assert (registry.list(), registry.broken()) == ((), ())
    for act in (registry.get, registry.verify, registry.remove):
        with pytest.raises(ModelNotFound, match="is not registered and there is no store at ") as caught:
            act("tiny")
        assert caught.value.missing_store == registry.store
        assert "RASE_STORE" in str(caught.value.advice)
    with pytest.raises(ModelNotFound):
        registry.remove("tiny")
    assert not registry.store.exists()


def test_a_store_that_is_there_and_empty_is_told_from_one_that_is_not(registry: ModelRegistry) -> None:
    registry.store.mkdir()
    with pytest.raises(ModelNotFound, match=r"is not registered \(registered: none\)$") as caught:
        registry.get("tiny")
    assert caught.value.missing_store is None


def test_what_is_given_is_recorded(registry: ModelRegistry, weights: Path, tmp_path: Path) -> None:
    tokenizer, template = tmp_path / "tok.json", tmp_path / "chat.jinja"
    tokenizer.write_text("{}")
    template.write_text("x")
    source = ModelSource("owner/name", "model.gguf", "abc")
    registry.import_local(
        weights,
        "tiny",
        Registration(
            kind=ModelKind.EMBEDDING,
            architecture="llama",
            context_length=77,
            chat_template="chatml",
            template_file=template,
            tokenizer=tokenizer,
            defaults={"top_k": 3, "stop": ("a",), "stop_tokens": frozenset({2, 1}), "logit_bias": {4: 1.0}},
            source=source,
        ),
    )
    manifest = registry.get("tiny")
    assert (manifest.kind, manifest.architecture, manifest.context_length) == (
        ModelKind.EMBEDDING,
        "llama",
        77,
    )
    assert (manifest.chat_template, manifest.template_file) == ("chatml", template)
    assert (manifest.tokenizer, manifest.tokenizer_sha256) == (tokenizer, sha256(tokenizer))
    assert (manifest.source, manifest.default_config().stop_tokens) == (source, frozenset({1, 2}))
    assert manifest.default_config().logit_bias == {4: 1.0}


def test_facts_come_from_the_file_unless_given(registry: ModelRegistry, weights: Path) -> None:
    facts = ModelFacts("llama", 2048, aliases=frozenset({"llama3"}))
    manifest = registry.import_local(weights, "a", describe=lambda path, tokenizer: facts)
    assert (manifest.architecture, manifest.context_length) == ("llama", 2048)
    given = Registration(architecture="llama3", context_length=512)
    manifest = registry.import_local(weights, "b", given, describe=lambda path, tokenizer: facts)
    assert (manifest.architecture, manifest.context_length) == ("llama3", 512)


def test_an_architecture_that_contradicts_the_file_is_an_error(
    registry: ModelRegistry, weights: Path
) -> None:
    with pytest.raises(ArchitectureMismatch, match="is 'llama', not 'qwen2'"):
        registry.import_local(
            weights,
            "a",
            Registration(architecture="qwen2"),
            describe=lambda path, tokenizer: ModelFacts("llama"),
        )
    assert not registry.store.exists()


def test_a_file_that_cannot_be_described_is_not_registered(registry: ModelRegistry, weights: Path) -> None:
    def describe(path: Path, tokenizer: Path | None) -> ModelFacts:
        raise InvalidGguf(path, "truncated", offset=4)

    with pytest.raises(InvalidGguf):
        registry.import_local(weights, "a", describe=describe)
    assert registry.list() == ()


def test_a_split_model_is_one_model_with_all_hashes(registry: ModelRegistry, tmp_path: Path) -> None:
    parts = [tmp_path / f"m-{i:05}-of-00003.gguf" for i in (1, 2, 3)]
    for part in parts:
        part.write_bytes(b"GGUF" + part.name.encode())
    described: list[Path] = []
    events: list[ProgressEvent] = []

    def describe(path: Path, tokenizer: Path | None) -> ModelFacts:
        described.append(path)
        return ModelFacts()

    registry.import_local(parts[1], "split", describe=describe, progress=events.append)
    manifest = registry.get("split")
    assert [(file.path, file.sha256) for file in manifest.weights] == [(part, sha256(part)) for part in parts]
    assert described == [parts[0]]
    assert [event.file for event in events] == [part.name for part in parts]
    parts[2].write_bytes(b"other")
    with pytest.raises(IntegrityMismatch) as caught:
        registry.verify("split")
    assert caught.value.path == parts[2]


def test_paths_may_have_spaces_and_any_letters(registry: ModelRegistry, tmp_path: Path) -> None:
    path = tmp_path / 'mit Leer "ü" 模型\n🦙.gguf'
    path.write_bytes(b"GGUF")
    registry.import_local(path, "odd")
    assert registry.verify("odd").weights_path == path


def test_a_path_that_is_no_unicode_is_an_error(registry: ModelRegistry, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"bad\xff.gguf")
    path.write_bytes(b"GGUF")
    with pytest.raises(StoreError, match="not valid Unicode"):
        registry.import_local(path, "odd")
    assert (registry.list(), registry.broken()) == ((), ())


def test_a_relative_path_and_a_link_become_absolute_and_stay_a_link(
    registry: ModelRegistry, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (weights.parent / "link.gguf").symlink_to(weights.name)
    monkeypatch.chdir(weights.parent)
    assert registry.import_local(Path("link.gguf"), "a").weights_path == weights.parent / "link.gguf"


def test_known_hashes_are_not_computed_again(registry: ModelRegistry, weights: Path) -> None:
    events: list[ProgressEvent] = []
    registry.import_local(weights, "a", known_sha256={weights: "0" * 64}, progress=events.append)
    assert (registry.get("a").weights[0].sha256, events) == ("0" * 64, [])


@pytest.mark.parametrize(
    ("old", "new"),
    [('kind = "generator"', 'kind = "genrator"'), ("size = ", "size = 0."), ('format = "gguf"', "")],
)
def test_importing_corrects_a_manifest_and_keeps_what_is_right(
    registry: ModelRegistry, weights: Path, old: str, new: str
) -> None:
    registry.import_local(weights, "a", Registration(defaults={"top_k": 3}))
    path = manifest_path(registry, "a")
    path.write_text(path.read_text().replace(old, new) + "\n[mine]\nx = 1 # kept\n")
    with pytest.raises(InvalidManifest):
        registry.get("a")
    assert registry.import_local(weights, "a") == registry.get("a")
    assert registry.get("a").defaults == {"top_k": 3}
    assert path.read_text().endswith("\n[mine]\nx = 1 # kept\n")


@pytest.mark.parametrize(
    ("content", "line"), [(b"a = 1\n= broken", 2), (b"\xff\xfe", 1), (b"[defaults]\ntop_q = 3", 2)]
)
def test_a_manifest_that_would_lose_something_is_not_replaced(
    registry: ModelRegistry, weights: Path, content: bytes, line: int
) -> None:
    registry.import_local(weights, "a")
    manifest_path(registry, "a").write_bytes(content)
    events: list[ProgressEvent] = []
    with pytest.raises(InvalidManifest) as caught:
        registry.import_local(weights, "a", progress=events.append)
    assert (caught.value.path, caught.value.line) == (manifest_path(registry, "a"), line)
    assert (manifest_path(registry, "a").read_bytes(), events) == (content, [])
    registry.remove("a")
    assert registry.import_local(weights, "a") == registry.get("a")


def test_an_empty_manifest_is_replaced(registry: ModelRegistry, weights: Path) -> None:
    registry.import_local(weights, "a")
    manifest_path(registry, "a").write_bytes(b"")
    assert registry.import_local(weights, "a") == registry.get("a")


def test_a_registration_can_be_checked_before_there_are_weights(
    registry: ModelRegistry, weights: Path, tmp_path: Path
) -> None:
    registry.import_local(weights, "Taken")
    manifest_path(registry, "broken").write_text("= x")
    for model_id, given, error in (
        ("../x", Registration(), InvalidModelId),
        ("taken", Registration(), InvalidModelId),
        ("broken", Registration(), InvalidManifest),
        ("x", Registration(context_length=0), InvalidParameter),
        ("x", Registration(defaults={"top_p": 2}), InvalidGenerationConfig),
        ("x", Registration(tokenizer=tmp_path / "missing"), ModelFileNotFound),
        ("x", Registration(template_file=tmp_path), ModelFileNotFound),
    ):
        with pytest.raises(error):
            registry.check(model_id, given)
    registry.check("x", Registration(architecture="llama", tokenizer=weights))
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        ModelRegistry(tmp_path / "file").check("x", Registration())
    (tmp_path / "another").mkdir()
    (tmp_path / "another" / "manifests").write_text("")
    with pytest.raises(StoreError, match="manifests: is no folder"):
        ModelRegistry(tmp_path / "another").check("x", Registration())


@pytest.mark.parametrize(
    ("content", "error"),
    [(b"", UnsupportedFormat), (b"<html>", UnsupportedFormat), (None, ModelFileNotFound)],
)
def test_what_is_no_model_is_not_registered(
    registry: ModelRegistry, tmp_path: Path, content: bytes | None, error: type[Exception]
) -> None:
    path = tmp_path / "x.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error):
        registry.import_local(path, "x")
    assert not registry.store.exists()


@pytest.mark.parametrize(
    "given",
    [
        Registration(defaults={"top_p": 2}),
        Registration(defaults={"top": 2}),
        Registration(context_length=0),
        Registration(context_length=2**31),
    ],
    ids=repr,
)
def test_values_out_of_range_are_not_registered(
    registry: ModelRegistry, weights: Path, given: Registration
) -> None:
    with pytest.raises(InvalidParameter):
        registry.import_local(weights, "x", given)
    assert registry.list() == ()


def test_bad_ids_are_refused_everywhere(registry: ModelRegistry, weights: Path) -> None:
    for act in (
        lambda: registry.import_local(weights, "../evil"),
        lambda: registry.get("../evil"),
        lambda: registry.verify(".evil"),
        lambda: registry.remove("a/b"),
        lambda: registry.attach_tokenizer("a b", weights),
    ):
        with pytest.raises(InvalidModelId):
            act()


def test_ids_that_differ_in_case_alone_are_refused(registry: ModelRegistry, weights: Path) -> None:
    registry.import_local(weights, "Tiny")
    with pytest.raises(InvalidModelId, match="differs from 'Tiny' in case alone"):
        registry.import_local(weights, "tiny")
    with pytest.raises(ModelNotFound, match="Tiny"):
        registry.get("tiny")


def test_list_is_in_the_order_of_ids(registry: ModelRegistry, weights: Path) -> None:
    for model_id in ("b", "a-1", "a", "B2", "a.1"):
        registry.import_local(weights, model_id)
    assert [manifest.id for manifest in registry.list()] == sorted(("b", "a-1", "a", "B2", "a.1"))


def test_an_unknown_id_is_named_with_the_known_ones(registry: ModelRegistry, weights: Path) -> None:
    registry.import_local(weights, "a")
    registry.import_local(weights, "b")
    with pytest.raises(ModelNotFound) as caught:
        registry.get("c")
    assert (caught.value.model_id, caught.value.known) == ("c", ("a", "b"))


def test_broken_manifests_do_not_hide_the_others(registry: ModelRegistry, weights: Path) -> None:
    good = registry.import_local(weights, "good")
    folder = registry.store / "manifests"
    (folder / "half.toml").write_text('id = "half"\nkind = "gen')
    (folder / "bad name.toml").write_text("")
    (folder / "folder.toml").mkdir()
    os.mkfifo(folder / "pipe.toml")
    (folder / ".hidden.toml").write_text("")
    (folder / "notes.txt").write_text("")
    assert registry.list() == (good,)
    broken = {error.path.name: error for error in registry.broken()}
    assert list(broken) == ["bad name.toml", "folder.toml", "half.toml", "pipe.toml"]
    assert broken["half.toml"].line == 2
    assert broken["pipe.toml"].reason == "is not a regular file"
    registry.remove("half")
    assert not (folder / "half.toml").exists()


def test_a_manifest_may_begin_with_a_byte_order_mark(registry: ModelRegistry, weights: Path) -> None:
    manifest = registry.import_local(weights, "a")
    registry.add_alias("a", "other")
    path = registry.store / "manifests" / "a.toml"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert registry.get("other").weights == manifest.weights
    assert registry.add_alias("a", "third").aliases == ("other", "third")
    assert registry.broken() == ()


def test_a_link_to_nothing_in_the_place_of_a_manifest_hides_no_other_and_can_be_removed(
    registry: ModelRegistry, weights: Path
) -> None:
    registry.import_local(weights, "a")
    link = registry.store / "manifests" / "b.toml"
    link.symlink_to("gone")
    assert [manifest.id for manifest in registry.list()] == ["a"] and registry.get("a").id == "a"
    assert [fault.path for fault in registry.broken()] == [link]
    with pytest.raises(InvalidManifest, match="not there"):
        registry.get("b")
    registry.add_alias("a", "other")
    registry.remove("b")
    assert registry.broken() == () and not link.is_symlink()


def test_a_folder_in_the_place_of_a_manifest_is_left_alone_and_named(
    registry: ModelRegistry, weights: Path
) -> None:
    registry.import_local(weights, "a")
    folder = registry.store / "manifests" / "b.toml"
    folder.mkdir()
    (folder / "mine").write_text("x")
    with pytest.raises(StoreError, match=r"b\.toml: is a folder in the place of a manifest") as caught:
        registry.remove("b")
    assert caught.value.advice == "move it or delete it yourself"
    assert (folder / "mine").read_text() == "x"


def test_an_id_that_is_taken_gets_advice_about_that(registry: ModelRegistry, weights: Path) -> None:
    registry.import_local(weights, "a")
    registry.add_alias("a", "gpt")
    with pytest.raises(InvalidModelId, match="is an alias of 'a'") as caught:
        registry.import_local(weights, "gpt")
    assert "rase model alias a gpt --remove" in str(caught.value.advice)
    with pytest.raises(InvalidModelId, match="in case alone") as caught:
        registry.import_local(weights, "A")
    assert "use 'a' itself" in str(caught.value.advice)


def test_removing_leaves_the_weights(registry: ModelRegistry, weights: Path) -> None:
    registry.import_local(weights, "a")
    registry.remove("a")
    assert (registry.list(), weights.exists()) == ((), True)
    with pytest.raises(ModelNotFound):
        registry.remove("a")


def test_a_path_that_none_can_be_is_no_store() -> None:
    with pytest.raises(StoreError, match="null byte"):
        ModelRegistry(Path("a\0b"))
