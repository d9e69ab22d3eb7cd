"""The first model: found, or offered."""

import sys
from pathlib import Path

import pytest
from rase_cli import demo
from rase_cli.demo import DEMO_DEFAULTS, DEMO_ID, FIRST_MODEL, NoModelRegistered, find_demo_weights
from rase_models.engine import Engine


def test_the_demo_model_is_found_without_importing_its_package(smollm2_path: Path) -> None:
    assert find_demo_weights() == smollm2_path
    assert demo.DEMO_PACKAGE not in sys.modules


def test_a_package_without_weights_is_no_demo_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / demo.DEMO_PACKAGE).mkdir()
    (tmp_path / demo.DEMO_PACKAGE / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert find_demo_weights() is None
    monkeypatch.setitem(sys.modules, demo.DEMO_PACKAGE, None)  # as if it were not installed
    assert find_demo_weights() is None


def test_the_demo_model_is_registered_with_settings_that_suit_it(tmp_path: Path, smollm2_path: Path) -> None:
    with Engine(tmp_path) as engine:
        assert demo.register_first_model(engine) == DEMO_ID
        manifest = engine.inspect(DEMO_ID)
        assert manifest.weights_path == smollm2_path
        assert dict(manifest.defaults) == dict(DEMO_DEFAULTS)
        rendered = engine.render(DEMO_ID, [{"role": "user", "content": "Hi"}])
        assert rendered == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_nobody_is_asked_without_a_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, demo.DEMO_PACKAGE, None)  # as if it were not installed
    with Engine(tmp_path) as engine, pytest.raises(NoModelRegistered) as caught:
        demo.register_first_model(engine)
    assert FIRST_MODEL.command in str(caught.value.advice)


def test_a_demo_model_that_moved_is_found_again_and_keeps_what_was_set(
    tmp_path: Path, smollm2_path: Path
) -> None:
    moved = tmp_path / "elsewhere" / smollm2_path.parent.name / smollm2_path.name
    moved.parent.mkdir(parents=True)
    moved.symlink_to(smollm2_path)
    with Engine(tmp_path) as engine:
        engine.import_model(moved, DEMO_ID, chat_template="llama3", defaults={"top_k": 3})
        assert demo.refresh_demo(engine, DEMO_ID) == DEMO_ID
        assert engine.inspect(DEMO_ID).weights_path == moved
        moved.unlink()
        demo.refresh_demo(engine, DEMO_ID)
        found = engine.inspect(DEMO_ID)
        assert (found.weights_path, found.chat_template) == (smollm2_path, "llama3")
        assert found.defaults == {"top_k": 3}


def test_another_model_under_the_name_of_the_demo_model_is_left_alone(
    tmp_path: Path, smollm2_path: Path
) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(smollm2_path.read_bytes() + bytes(32))
    with Engine(tmp_path) as engine:
        engine.import_model(own, DEMO_ID)
        own.unlink()
        demo.refresh_demo(engine, DEMO_ID)
        assert engine.inspect(DEMO_ID).weights_path == own


def test_a_demo_model_whose_package_has_another_file_is_registered_anew_with_what_was_set(
    tmp_path: Path, smollm2_path: Path
) -> None:
    older = tmp_path / "elsewhere" / smollm2_path.parent.name / "older.gguf"
    older.parent.mkdir(parents=True)
    older.write_bytes(smollm2_path.read_bytes() + bytes(32))
    with Engine(tmp_path) as engine:
        engine.import_model(older, DEMO_ID, chat_template="llama3", context_length=500)
        engine.add_alias(DEMO_ID, "chat")
        older.unlink()
        demo.refresh_demo(engine, DEMO_ID)
        found = engine.inspect(DEMO_ID)
        assert (found.weights_path, found.chat_template) == (smollm2_path, "llama3")
        assert (found.context_length, found.aliases) == (500, ("chat",))


def test_a_demo_model_whose_file_was_replaced_in_place_is_registered_again(
    tmp_path: Path, smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / demo.DEMO_PACKAGE
    package.mkdir()
    (package / "__init__.py").touch()
    path = package / "model.gguf"
    path.write_bytes(smollm2_path.read_bytes() + bytes(32))
    monkeypatch.syspath_prepend(tmp_path)
    with Engine(tmp_path) as engine:
        engine.import_model(path, DEMO_ID, defaults={"top_k": 3})
        path.write_bytes(smollm2_path.read_bytes())
        demo.refresh_demo(engine, DEMO_ID)
        assert engine.verify(DEMO_ID).defaults == {"top_k": 3}
        assert engine.inspect(DEMO_ID).context_length == 8192
