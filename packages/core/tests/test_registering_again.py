"""A model that is registered under an id that is known already."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rase_core.errors import InvalidManifest, ModelExists, StoreError, TokenizerError
from rase_core.lock import FileLock
from rase_core.manifest import ModelKind, ModelManifest, ModelSource
from rase_core.progress import ProgressEvent
from rase_core.registration import Describe, IfNew, ModelFacts, Registration
from rase_core.registry import ModelRegistry
from rase_core.weights_identity import WeightsIdentity

SOURCE = ModelSource("maker/model", "model.gguf", "a" * 40)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.gguf"
    path.write_bytes(b"GGUF another model")
    return path


@pytest.fixture
def mine(registry: ModelRegistry, weights: Path, tmp_path: Path) -> ModelManifest:
    """A model with everything set that can be."""
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text("{}")
    given = Registration(
        kind=ModelKind.EMBEDDING,
        architecture="llama3",
        context_length=512,
        chat_template="chatml",
        tokenizer=tokenizer,
        defaults={"top_k": 3},
        source=SOURCE,
    )
    registry.import_local(weights, "mine", given)
    registry.add_alias("mine", "gpt-4o")
    path = registry.store / "manifests" / "mine.toml"
    path.write_text(f"# by hand\nnote = 'kept'\n{path.read_text()}")
    return registry.get("mine")


def text(registry: ModelRegistry) -> str:
    return (registry.store / "manifests" / "mine.toml").read_text()


def test_the_same_file_keeps_all_that_was_set(
    registry: ModelRegistry, weights: Path, mine: ModelManifest
) -> None:
    before = text(registry)
    assert registry.import_local(weights, "mine") == mine
    assert text(registry) == before


def test_what_is_given_again_counts_and_the_rest_stays(
    registry: ModelRegistry, weights: Path, mine: ModelManifest, tmp_path: Path
) -> None:
    (tmp_path / "chat.jinja").write_text("{{ messages }}")
    given = Registration(template_file=tmp_path / "chat.jinja", defaults={}, context_length=100)
    again = registry.import_local(weights, "mine", given)
    assert (again.chat_template, again.template_file) == (None, tmp_path / "chat.jinja")
    assert (again.defaults, again.context_length) == ({}, 100)
    assert (again.kind, again.tokenizer, again.aliases) == (mine.kind, mine.tokenizer, mine.aliases)


def test_a_changed_file_keeps_what_was_set_and_gets_its_hashes_anew(
    registry: ModelRegistry, weights: Path, mine: ModelManifest
) -> None:
    assert mine.tokenizer is not None
    weights.write_bytes(b"GGUF changed")
    mine.tokenizer.write_text("{ }")
    facts = ModelFacts("llama", 300, frozenset({"llama3"}))
    seen: list[Path | None] = []

    def describe(path: Path, tokenizer: Path | None) -> ModelFacts:
        seen.append(tokenizer)
        return facts

    again = registry.import_local(weights, "mine", describe=describe)
    assert seen == [mine.tokenizer]
    assert again.weights[0].sha256 == hashlib.sha256(b"GGUF changed").hexdigest()
    assert again.tokenizer_sha256 == hashlib.sha256(b"{ }").hexdigest()
    assert (again.architecture, again.context_length, again.chat_template) == ("llama3", 300, "chatml")
    assert again.source is None  # it is not what was pulled from there any more
    registry.verify("mine")
    other_facts = ModelFacts("qwen3", 400)
    changed = registry.import_local(weights, "mine", describe=lambda path, tokenizer: other_facts)
    assert (changed.architecture, changed.context_length) == ("qwen3", 400)


def describing(architecture: str, context_length: int) -> Describe:
    return lambda path, tokenizer: ModelFacts(architecture, context_length, frozenset({"llama3"}))


def facts(manifest: ModelManifest) -> tuple[str | None, int | None]:
    return manifest.architecture, manifest.context_length


def test_facts_of_a_file_that_changes_follow_it(registry: ModelRegistry, weights: Path) -> None:
    for name, length in (("llama", 128), ("llama", 512), ("qwen3", 64), ("llama", 512)):
        weights.write_bytes(b"GGUF" + bytes(length))
        manifest = registry.import_local(weights, "mine", describe=describing(name, length))
        assert facts(manifest) == facts(registry.get("mine")) == (name, length)


def test_what_was_given_stays_even_where_the_file_said_the_same(
    registry: ModelRegistry, weights: Path
) -> None:
    given = Registration(architecture="llama", context_length=128)
    registry.import_local(weights, "mine", given, describe=describing("llama", 128))
    registry.import_local(weights, "mine", describe=describing("llama", 128))
    weights.write_bytes(b"GGUF changed")
    assert facts(registry.import_local(weights, "mine", describe=describing("llama", 512))) == ("llama", 128)
    longer = Registration(context_length=256)
    registry.import_local(weights, "mine", longer, describe=describing("llama", 512))
    weights.write_bytes(b"GGUF changed again")
    assert facts(registry.import_local(weights, "mine", describe=describing("llama", 900))) == ("llama", 256)


def test_facts_that_were_changed_by_hand_stay(registry: ModelRegistry, weights: Path) -> None:
    registry.import_local(weights, "mine", describe=describing("llama", 128))
    edited = text(registry).replace("= 128\n", "= 100\n").replace('"llama"\n', '"llama3"\n')
    (registry.store / "manifests" / "mine.toml").write_text(edited)
    for length in (128, 512):
        weights.write_bytes(b"GGUF" + bytes(length))
        manifest = registry.import_local(weights, "mine", describe=describing("llama", length))
        assert facts(manifest) == ("llama3", 100)


@pytest.mark.parametrize(
    ("was", "changed"), [(("llama", 128), ("llama", 512)), (("llama3", 100), ("llama3", 512))]
)
def test_of_an_older_manifest_what_differs_from_the_same_file_was_set(
    registry: ModelRegistry, weights: Path, was: tuple[str, int], changed: tuple[str, int]
) -> None:
    def older() -> None:
        given = Registration(architecture=was[0], context_length=was[1])
        registry.import_local(weights, "mine", given, replace=True)
        path = registry.store / "manifests" / "mine.toml"
        path.write_text(text(registry).replace("from_file = {}\n", ""))

    older()
    assert facts(registry.import_local(weights, "mine", describe=describing("llama", 128))) == was
    older()
    weights.write_bytes(b"GGUF changed")
    assert facts(registry.import_local(weights, "mine", describe=describing("llama", 512))) == changed


def test_a_tokenizer_that_is_attached_meanwhile_must_fit_too(
    registry: ModelRegistry, weights: Path, tmp_path: Path
) -> None:
    registry.import_local(weights, "mine")
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text("{}")
    seen: list[Path | None] = []

    def describe(path: Path, tokenizer: Path | None) -> ModelFacts:
        seen.append(tokenizer)
        if tokenizer is not None:
            raise TokenizerError(f"{tokenizer}: does not fit")
        return ModelFacts()

    def attach(event: ProgressEvent) -> None:
        registry.attach_tokenizer("mine", tokenizer)

    with pytest.raises(TokenizerError):
        registry.import_local(weights, "mine", describe=describe, progress=attach)
    assert seen == [None, tokenizer]


def test_what_a_new_model_gets_is_not_given_to_one_that_was_registered_meanwhile(
    registry: ModelRegistry, weights: Path
) -> None:
    if_new = IfNew({"top_k": 3}, "chat")

    def register(event: ProgressEvent) -> None:
        registry.import_local(weights, "mine")

    raced = registry.import_local(weights, "mine", if_new=if_new, progress=register)
    assert (raced.defaults, raced.aliases) == ({}, ())
    replaced = registry.import_local(weights, "mine", if_new=if_new, replace=True)
    assert replaced == registry.get("mine")
    assert (replaced.defaults, replaced.aliases) == ({"top_k": 3}, ("chat",))
    another = registry.import_local(weights, "other", if_new=IfNew({"top_k": 4}, "chat"))
    assert (another.defaults, another.aliases) == ({"top_k": 4}, ())
    assert registry.import_local(weights, "third", if_new=IfNew(alias="no alias")).aliases == ()


BROKEN = {
    "a value": b"id = 'mine'\ncontext_length = 0\naliases = ['chat']\nnote = 'kept'\n",
    "a table": b"note = 'kept'\naliases = ['chat']\n[[source]]\n[[source]]\n",
    "settings": b"defaults = 3\nfrom_file = 3\nnote = 'kept'\naliases = ['chat']\n",
    "no TOML": b"note = 'lost\n",
    "no text": b"\xff\xfe",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_manifest_is_written_anew_when_that_is_said(
    registry: ModelRegistry, weights: Path, content: bytes
) -> None:
    registry.import_local(weights, "mine")
    path = registry.store / "manifests" / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidManifest) as caught:
        registry.import_local(weights, "mine", if_new=IfNew({"top_k": 3}))
    assert "`rase model remove mine`" in str(caught.value.advice)
    assert "`rase model import PATH --id mine --replace`" in str(caught.value.advice)
    assert path.read_bytes() == content
    registry.check("mine", Registration(), replace=True)
    again = registry.import_local(weights, "mine", replace=True)
    assert again == registry.get("mine")
    kept = ("note = 'kept'" in text(registry), again.aliases)
    assert kept == ((True, ("chat",)) if b"kept" in content else (False, ()))


def test_a_link_to_nothing_in_the_place_of_a_manifest_can_be_replaced_and_a_folder_cannot(
    registry: ModelRegistry, weights: Path
) -> None:
    registry.import_local(weights, "other")
    path = registry.store / "manifests" / "mine.toml"
    path.symlink_to("nowhere")
    with pytest.raises(InvalidManifest):
        registry.import_local(weights, "mine")
    assert registry.import_local(weights, "mine", replace=True) == registry.get("mine")
    path.unlink()
    path.mkdir()
    for replace in (False, True):
        with pytest.raises(StoreError, match="a folder in the place of a manifest"):
            registry.import_local(weights, "mine", replace=replace)


def test_a_file_that_was_moved_is_the_same_by_its_content(
    registry: ModelRegistry, weights: Path, mine: ModelManifest, tmp_path: Path
) -> None:
    moved = weights.rename(tmp_path / "moved.gguf")
    again = registry.import_local(moved, "mine")
    assert again.weights_path == moved
    assert (again.chat_template, again.source, again.aliases) == ("chatml", SOURCE, ("gpt-4o",))


def test_a_file_that_was_pulled_anew_keeps_what_was_set(
    registry: ModelRegistry, mine: ModelManifest, other: Path
) -> None:
    newer = ModelSource(SOURCE.repo, SOURCE.file, "b" * 40)
    again = registry.import_local(other, "mine", Registration(source=newer))
    assert (again.weights_path, again.source, again.chat_template) == (other, newer, "chatml")


def test_another_file_is_refused_before_anything_is_hashed(
    registry: ModelRegistry, weights: Path, mine: ModelManifest, other: Path
) -> None:
    before, events = text(registry), list[ProgressEvent]()
    with pytest.raises(ModelExists, match="with another file: ") as caught:
        registry.import_local(other, "mine", progress=events.append)
    assert (caught.value.model_id, caught.value.path) == ("mine", weights)
    assert "rase model remove mine" in str(caught.value.advice)
    assert (text(registry), events) == (before, [])


def test_another_file_of_the_same_size_is_refused_once_it_is_hashed(
    registry: ModelRegistry, weights: Path, mine: ModelManifest, other: Path
) -> None:
    other.write_bytes(weights.read_bytes()[::-1].replace(b"FUGG", b"") + b"FUGG")
    other.write_bytes(b"GGUF" + other.read_bytes()[4:])
    before = text(registry)
    with pytest.raises(ModelExists):
        registry.import_local(other, "mine")
    assert text(registry) == before


def test_another_file_can_be_refused_by_what_a_repository_says_of_it(
    registry: ModelRegistry, mine: ModelManifest
) -> None:
    def found(sha256: str | None, size: int | None, repo: str = "other/model") -> WeightsIdentity:
        return WeightsIdentity(("",), (size,), (sha256,), ModelSource(repo, "model.gguf"))

    [file] = mine.weights
    for same in (found(file.sha256, file.size), found(None, file.size), found("0" * 64, 1, SOURCE.repo)):
        registry.check("mine", Registration(), same)
    for another in (found("0" * 64, file.size), found(None, 1)):
        with pytest.raises(ModelExists):
            registry.check("mine", Registration(), another)
        registry.check("mine", Registration(), another, replace=True)


def test_a_model_is_replaced_with_all_that_was_set_when_that_is_said(
    registry: ModelRegistry, mine: ModelManifest, other: Path
) -> None:
    manifest = registry.import_local(other, "mine", replace=True)
    assert manifest == registry.get("mine")
    assert (manifest.weights_path, manifest.kind, manifest.defaults) == (other, ModelKind.GENERATOR, {})
    assert (manifest.chat_template, manifest.tokenizer, manifest.context_length) == (None, None, None)
    assert manifest.aliases == ("gpt-4o",)
    assert text(registry).startswith("# by hand\nnote = 'kept'\n")


def test_a_split_model_is_another_than_one_of_its_parts(registry: ModelRegistry, tmp_path: Path) -> None:
    parts = [tmp_path / f"m-{i:05}-of-00002.gguf" for i in (1, 2)]
    for part in parts:
        part.write_bytes(b"GGUF" + part.name.encode())
    registry.import_local(parts[0], "split", Registration(chat_template="chatml"))
    assert registry.import_local(parts[1], "split").chat_template == "chatml"
    shutil.copy(parts[0], tmp_path / "one.gguf")
    with pytest.raises(ModelExists):
        registry.import_local(tmp_path / "one.gguf", "split")


IMPORT = """
import sys
from pathlib import Path
from rase_core.errors import ModelExists
from rase_core.registry import ModelRegistry
try:
    ModelRegistry(Path(sys.argv[1])).import_local(Path(sys.argv[2]), "new")
except ModelExists as error:
    print(error.path)
"""


def run(registry: ModelRegistry, paths: Sequence[Path]) -> list[str]:
    """Register each file under one id in a process of its own, all at once, and return what they print."""
    command = [sys.executable, "-c", IMPORT, str(registry.store)]
    (registry.store / "manifests").mkdir(parents=True)
    with FileLock(registry.store / "manifests" / ".lock"):
        started = [
            subprocess.Popen([*command, str(path)], stdout=subprocess.PIPE, text=True) for path in paths
        ]
    return [process.communicate(timeout=60)[0].strip() for process in started]


def test_of_two_processes_one_registers_its_file_and_the_other_is_told(
    registry: ModelRegistry, weights: Path, other: Path
) -> None:
    told = run(registry, [weights, other])
    kept = registry.get("new").weights_path
    assert sorted(told) == ["", str(kept)]
    assert told[[weights, other].index(kept)] == ""
