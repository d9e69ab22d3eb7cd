from pathlib import Path

import pytest
from rase_core.errors import InvalidAlias, InvalidManifest, InvalidModelId, ModelNotFound
from rase_core.registration import Registration
from rase_core.registry import ModelRegistry


@pytest.fixture(autouse=True)
def two(registry: ModelRegistry, weights: Path) -> None:
    registry.import_local(weights, "one")
    registry.import_local(weights, "two")


def manifest_text(registry: ModelRegistry, model_id: str) -> str:
    return (registry.store / "manifests" / f"{model_id}.toml").read_text()


def append(registry: ModelRegistry, model_id: str, text: str) -> None:
    path = registry.store / "manifests" / f"{model_id}.toml"
    path.write_text(path.read_text() + text)


@pytest.mark.parametrize("alias", ["chat", "llama3.2:1b", "meta-llama/Llama-3.2-1B", "gpt-4o"])
def test_a_model_is_found_by_its_alias(registry: ModelRegistry, alias: str) -> None:
    manifest = registry.add_alias("one", alias)
    assert registry.get(alias) == registry.get("one") == manifest
    assert (registry.resolve(alias), manifest.aliases) == ("one", (alias,))
    assert registry.verify(alias).id == "one"
    assert registry.list()[0].aliases == (alias,)


def test_an_alias_given_twice_is_one(registry: ModelRegistry) -> None:
    registry.add_alias("one", "chat")
    assert registry.add_alias("chat", "chat").aliases == ("chat",)


@pytest.mark.parametrize("taken", ["two", "TWO", "chat", "Chat"])
def test_names_that_are_taken_are_refused(registry: ModelRegistry, taken: str) -> None:
    registry.add_alias("two", "chat")
    with pytest.raises(InvalidAlias, match=r"'two'"):
        registry.add_alias("one", taken)
    assert "aliases" not in manifest_text(registry, "one")


@pytest.mark.parametrize("alias", ["", "-x", "../x", "a b", "a\n", "ä", "x" * 129, ".x"])
def test_names_that_are_none_are_refused(registry: ModelRegistry, alias: str) -> None:
    with pytest.raises(InvalidAlias, match="a letter, digit or '_' first"):
        registry.add_alias("one", alias)
    assert registry.add_alias("one", "_x").aliases == ("_x",)


@pytest.mark.parametrize("model_id", ["chat", "CHAT"])
def test_no_model_is_registered_under_an_alias_of_another(
    registry: ModelRegistry, weights: Path, model_id: str
) -> None:
    registry.add_alias("one", "chat")
    with pytest.raises(InvalidModelId, match="alias of 'one'"):
        registry.import_local(weights, model_id)


def test_aliases_outlive_a_registration_anew(registry: ModelRegistry, weights: Path) -> None:
    registry.add_alias("one", "chat")
    manifest = registry.import_local(weights, "one", Registration(defaults={"temperature": 0.0}))
    assert manifest.aliases == ("chat",)
    assert registry.get("chat").defaults == {"temperature": 0.0}


def test_an_alias_is_taken_away(registry: ModelRegistry) -> None:
    registry.add_alias("one", "chat")
    registry.add_alias("one", "talk")
    assert registry.remove_alias("chat", "chat").aliases == ("talk",)
    with pytest.raises(ModelNotFound, match="one, two"):
        registry.get("chat")
    with pytest.raises(InvalidAlias, match="is none of 'one'") as caught:
        registry.remove_alias("one", "chat")
    assert caught.value.advice == "its aliases: talk"


def test_several_aliases_are_changed_all_or_none(registry: ModelRegistry) -> None:
    registry.add_alias("two", "taken")
    with pytest.raises(InvalidAlias, match="taken"):
        registry.add_alias("one", "free", "taken")
    assert registry.get("one").aliases == ()
    assert registry.add_alias("one", "free", "chat", "free", "talk").aliases == ("free", "chat", "talk")
    with pytest.raises(InvalidAlias, match="taken"):
        registry.remove_alias("one", "free", "taken")
    assert registry.remove_alias("one", "free", "talk").aliases == ("chat",)


def test_a_model_is_not_removed_by_its_alias(registry: ModelRegistry) -> None:
    registry.add_alias("one", "chat")
    with pytest.raises(InvalidAlias, match="alias of 'one'"):
        registry.remove("chat")
    registry.remove("one")
    with pytest.raises(ModelNotFound):
        registry.get("chat")


def test_an_alias_that_two_manifests_claim_names_neither(registry: ModelRegistry) -> None:
    for model_id in ("one", "two"):
        append(registry, model_id, 'aliases = ["chat"]\n')
    with pytest.raises(InvalidAlias, match="one of one, two"):
        registry.get("chat")
    registry.remove_alias("one", "chat")
    assert registry.get("chat").id == "two"


def test_an_id_counts_before_an_alias(registry: ModelRegistry) -> None:
    append(registry, "one", 'aliases = ["two"]\n')
    assert registry.get("two").id == "two"


@pytest.mark.parametrize(
    ("aliases", "faults"),
    [
        ({"one": ["two"]}, {"one": "alias 'two' is the id of 'two'"}),
        ({"two": ["chat", "ONE"]}, {"two": "alias 'ONE' is the id of 'one'"}),
        (
            {"one": ["chat"], "two": ["Chat"]},
            {"one": "alias 'chat' is an alias of 'two'", "two": "alias 'Chat' is an alias of 'one'"},
        ),
        ({"one": ["one", "chat", "chat"], "two": ["talk"]}, {}),
    ],
)
def test_aliases_by_hand_that_name_another_model_are_told_with_both_and_hide_none(
    registry: ModelRegistry, aliases: dict[str, list[str]], faults: dict[str, str]
) -> None:
    for model_id, names in aliases.items():
        append(registry, model_id, f"aliases = {names}\n")
    told = {error.path.stem: (error.key, error.reason) for error in registry.broken()}
    assert told == {model_id: ("aliases", reason) for model_id, reason in faults.items()}
    assert [manifest.id for manifest in registry.list()] == ["one", "two"]
    assert [registry.get(model_id).id for model_id in ("one", "two")] == ["one", "two"]


def test_an_alias_that_a_manifest_has_twice_is_one(registry: ModelRegistry) -> None:
    append(registry, "one", 'aliases = ["chat", "chat"]\n')
    assert registry.get("chat").id == "one"


@pytest.mark.parametrize("value", ['"chat"', "[1]", '["a b"]', "{}"])
def test_aliases_that_cannot_be_read_are_named(registry: ModelRegistry, value: str) -> None:
    append(registry, "one", f"aliases = {value}\n")
    with pytest.raises(InvalidManifest, match="aliases"):
        registry.get("one")
    for name in ("chat", "c"):
        with pytest.raises(ModelNotFound):  # the others are not held up by it
            registry.get(name)


def test_a_broken_manifest_holds_up_no_alias(registry: ModelRegistry) -> None:
    registry.add_alias("one", "chat")
    append(registry, "two", "aliases = [[[\n")
    assert registry.get("chat").id == "one"
