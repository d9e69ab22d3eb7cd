import hashlib
import os
import random
import shutil
import subprocess
import sys
import time
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
from rase_core.lock import FileLock
from rase_core.manifest import ModelKind, ModelSource
from rase_core.progress import ProgressEvent
from rase_core.registration import ModelFacts, Registration
from rase_core.registry import ModelRegistry
from rase_core.store_folder import default_store


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


def test_a_store_that_another_process_keeps_locked_is_in_use(weights: Path, tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path / "store", patience=0.05)
    registry.import_local(weights, "a")
    with (
        FileLock(registry.store / "manifests" / ".lock"),
        pytest.raises(StoreError, match="the model store is in use: ") as caught,
    ):
        registry.import_local(weights, "a")
    assert caught.value.advice == "try again when that is done"


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


def test_removing_leaves_the_weights(registry: ModelRegistry, weights: Path) -> None:
    registry.import_local(weights, "a")
    registry.remove("a")
    assert (registry.list(), weights.exists()) == ((), True)
    with pytest.raises(ModelNotFound):
        registry.remove("a")


def test_a_store_that_is_a_file_is_a_named_error(tmp_path: Path, weights: Path) -> None:
    (tmp_path / "file").write_text("")
    for store in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match="file") as caught:
            ModelRegistry(store).import_local(weights, "a")
        assert "RASE_STORE" in str(caught.value.advice)
    with pytest.raises(StoreError):
        ModelRegistry(tmp_path / "file").list()


IMPORT = """
import os, sys
from pathlib import Path
from rase_core.errors import StoreError
from rase_core.registration import Registration
from rase_core.registry import ModelRegistry
{before}
try:
    given = Registration(chat_template="x" * {template})
    ModelRegistry(Path(sys.argv[1])).import_local(Path(sys.argv[2]), "a", given)
except StoreError as error:
    print(error, error.advice)
"""


def import_in_another_process(store: Path, weights: Path, before: str, template: int = 1) -> str:
    code = IMPORT.format(before=before, template=template)
    return subprocess.run(
        [sys.executable, "-c", code, str(store), str(weights)], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)
def test_a_store_without_write_permission_is_a_named_error(registry: ModelRegistry, weights: Path) -> None:
    registry.import_local(weights, "a")
    for folder in (weights, *weights.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    kept = manifest_path(registry, "a").read_bytes()
    become = (
        "ModelRegistry(Path(sys.argv[1])).list(); os.setgid(65534); os.setuid(65534)"  # libraries are read
    )
    said = import_in_another_process(registry.store, weights, become)
    assert "Permission denied" in said and "manifests" in said and "--store" in said
    assert manifest_path(registry, "a").read_bytes() == kept


def test_a_full_disk_is_a_named_error_and_the_old_manifest_stays(
    registry: ModelRegistry, weights: Path
) -> None:
    registry.import_local(weights, "a")
    kept = manifest_path(registry, "a").read_bytes()
    # A limit on the size of files is met where a full disk would be: in the middle of the write.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))"
    said = import_in_another_process(registry.store, weights, limit, template=100_000)
    assert "File too large" in said and "--store" in said
    assert manifest_path(registry, "a").read_bytes() == kept
    assert sorted(path.name for path in kept_files(registry)) == [".lock", "a.toml"]


@pytest.mark.skipif(shutil.which("mount") is None or not hasattr(os, "geteuid"), reason="needs mount")
def test_a_full_disk_says_to_free_some_space(tmp_path: Path, weights: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        registry = ModelRegistry(disk)
        registry.import_local(weights, "a")
        with pytest.raises(StoreError, match="No space left") as caught:
            registry.import_local(weights, "a", Registration(chat_template="x" * 100_000))
        assert "free some space" in str(caught.value.advice)
        assert registry.get("a").chat_template is None
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def kept_files(registry: ModelRegistry) -> list[Path]:
    return list((registry.store / "manifests").iterdir())


MANY = """
import sys
from pathlib import Path
from rase_core.registration import Registration
from rase_core.registry import ModelRegistry
registry = ModelRegistry(Path(sys.argv[1]))
print("ready", flush=True)
for round in range(int(sys.argv[3])):
    given = Registration(chat_template=f"{round:01000}")
    registry.import_local(Path(sys.argv[2]), f"{sys.argv[4]}{round % 5}", given)
"""


def start_many(registry: ModelRegistry, weights: Path, rounds: int, name: str) -> "subprocess.Popen[bytes]":
    arguments = [str(registry.store), str(weights), str(rounds), name]
    process = subprocess.Popen([sys.executable, "-c", MANY, *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


def test_a_kill_at_any_moment_leaves_a_whole_store(registry: ModelRegistry, weights: Path) -> None:
    pauses = random.Random(0)
    for _ in range(6):
        with start_many(registry, weights, 100, "model") as process:
            time.sleep(pauses.uniform(0.0, 0.25))
            process.kill()
        assert registry.broken() == ()
        for manifest in registry.list():
            assert manifest.chat_template is not None and len(manifest.chat_template) == 1000
    registry.import_local(weights, "after")
    assert all(path.suffix == ".toml" or path.name == ".lock" for path in kept_files(registry))


def test_two_processes_import_at_once(registry: ModelRegistry, weights: Path) -> None:
    with start_many(registry, weights, 40, "m") as one, start_many(registry, weights, 40, "m") as two:
        while one.poll() is None or two.poll() is None:
            assert registry.broken() == ()
            time.sleep(0.01)
        assert (one.returncode, two.returncode) == (0, 0)
    assert [manifest.id for manifest in registry.list()] == ["m0", "m1", "m2", "m3", "m4"]


def test_a_path_that_none_can_be_is_no_store() -> None:
    with pytest.raises(StoreError, match="null byte"):
        ModelRegistry(Path("a\0b"))


def test_the_default_store_is_named_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RASE_STORE", str(tmp_path / "mine"))
    assert default_store() == tmp_path / "mine"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RASE_STORE", "relative")
    assert default_store() == tmp_path / "relative"
    monkeypatch.setenv("RASE_STORE", "~/mine")
    assert default_store() == Path.home() / "mine"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_the_default_store_is_in_the_users_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RASE_STORE", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert default_store() == tmp_path / ".local" / "share" / "rase"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_store() == tmp_path / "data" / "rase"
    monkeypatch.setenv("XDG_DATA_HOME", "relative, so to be ignored")
    assert default_store() == tmp_path / ".local" / "share" / "rase"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems find the home in another way")
def test_a_user_without_a_home_is_asked_for_a_store() -> None:
    code = """
import os, pwd
from rase_core import StoreError, default_store
os.setuid(max(user.pw_uid for user in pwd.getpwall()) + 12345)
try:
    default_store()
except StoreError as error:
    print(error.advice)
"""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    environment = {key: value for key, value in os.environ.items() if key not in ("HOME", "RASE_STORE")}
    finished = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert finished.stdout == "name one with --store or RASE_STORE\n"
