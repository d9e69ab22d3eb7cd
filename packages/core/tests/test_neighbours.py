import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import InvalidModelId, InvalidParameter, NeighbourError
from rase_core.neighbours import FoundModel, find_model, found_models
from rase_core.neighbours.hf_cache import hf_cache_models
from rase_core.neighbours.lm_studio import lm_studio_models
from rase_core.neighbours.ollama import ollama_models

GGUF = b"GGUF" + bytes(60)
IMAGE = "application/vnd.ollama.image."
REGISTRY = "registry.ollama.ai/library"
posix = pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")


def blob(folder: Path, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    (folder / "blobs" / f"sha256-{digest}").write_bytes(content)
    return f"sha256:{digest}"


def manifest(folder: Path, name: str, content: bytes | dict[str, object]) -> Path:
    path = folder / "manifests" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def layered(*layers: tuple[str, str]) -> dict[str, object]:
    return {"layers": [{"mediaType": IMAGE + kind, "digest": digest, "size": 1} for kind, digest in layers]}


def only(models: Sequence[FoundModel]) -> FoundModel:
    (model,) = models
    return model


def test_a_model_of_ollama_is_found_with_its_hash_and_what_its_parameters_mean(tmp_path: Path) -> None:
    parameters = {
        "stop": ["<|im_end|>", "<|im_start|>"],
        "temperature": 0.2,
        "repeat_penalty": 1.1,
        "num_predict": -1,
        "num_ctx": 4096,
        "max_tokens": 3,
        "top_p": 7,
    }
    layers = [
        ("model", blob(tmp_path, GGUF)),
        ("params", blob(tmp_path, json.dumps(parameters).encode())),
        ("template", blob(tmp_path, b"{{ .Prompt }}")),
        ("license", blob(tmp_path, b"free")),
    ]
    manifest(tmp_path, f"{REGISTRY}/smollm2/135m", layered(*layers))
    model = only(ollama_models(tmp_path))
    assert (model.name, model.alias, model.model_id) == ("smollm2:135m", "smollm2:135m", "smollm2-135m")
    assert model.problem is None
    assert model.defaults == {
        "stop": ["<|im_end|>", "<|im_start|>"],
        "temperature": 0.2,
        "repetition_penalty": 1.1,
        "max_tokens": 2**31 - 1,
    }
    assert [note.split()[1:4] for note in model.notes] == [
        ["template", "is", "in"],
        ["parameter", "num_ctx", "4096"],
        ["parameter", "max_tokens", "3"],
        ["parameter", "top_p", "7"],
    ]
    assert model.checked() == {model.path: model.sha256} and model.size == len(GGUF)


@pytest.mark.parametrize(
    ("place", "name", "model_id"),
    [
        (f"{REGISTRY}/llama3/latest", "llama3:latest", "llama3"),
        ("registry.ollama.ai/someone/llama3/8b", "someone/llama3:8b", "someone-llama3-8b"),
        (
            "hf.co/bartowski/Llama-3/Q4_K_M",
            "hf.co/bartowski/Llama-3:Q4_K_M",
            "hf.co-bartowski-Llama-3-Q4_K_M",
        ),
    ],
)
def test_names_are_those_that_ollama_shows(tmp_path: Path, place: str, name: str, model_id: str) -> None:
    manifest(tmp_path, place, layered(("model", blob(tmp_path, GGUF))))
    model = only(ollama_models(tmp_path))
    assert (model.name, model.model_id) == (name, model_id)


@posix
def test_manifests_that_are_links_to_blobs_are_read(tmp_path: Path) -> None:
    digest = blob(tmp_path, json.dumps(layered(("model", blob(tmp_path, GGUF)))).encode())
    link = tmp_path / "manifests-v2" / REGISTRY / "smollm2" / "latest"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "blobs" / digest.replace(":", "-"))
    assert only(ollama_models(tmp_path)).problem is None


TRAVERSAL = "sha256:" + "../" * 20 + "etc/passwd"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is no JSON object"),
        (b" " * (4 << 20) + b"{}", "is no JSON object"),
        ({}, "has no list of layers"),
        ({"layers": {}}, "has no list of layers"),
        ({"layers": [1]}, "a layer without"),
        ({"layers": [{"mediaType": 1, "digest": "x"}]}, "a layer without"),
        ({"layers": []}, "0 layers of weights"),
        (layered(("model", TRAVERSAL)), "has the digest"),
        (layered(("model", "sha256-" + "../" * 10 + "x" * 34)), "has the digest"),
        (layered(("model", "sha256:" + "0" * 64 + "/../x")), "has the digest"),
        (layered(("model", "md5:" + "0" * 64)), "has the digest"),
        (layered(("model", "sha256:" + "0" * 64)), "no such file|No such file"),
        (layered(("model", "sha256:" + "0" * 64), ("model", "sha256:" + "1" * 64)), "2 layers of weights"),
        (layered(("adapter", "sha256:" + "0" * 64)), "adapter"),
        (layered(("projector", "sha256:" + "0" * 64)), "projector"),
        (layered(("tensor; name=x", "sha256:" + "0" * 64)), "safetensors"),
        (layered(("model", hashlib.sha256(GGUF).hexdigest())), "has the digest"),
    ],
)
def test_what_is_wrong_with_a_model_of_ollama_is_named_and_the_others_are_listed(
    tmp_path: Path, content: bytes | dict[str, object], problem: str
) -> None:
    manifest(tmp_path, f"{REGISTRY}/good/1b", layered(("model", blob(tmp_path, GGUF))))
    manifest(tmp_path, f"{REGISTRY}/bad/1b", content)
    bad, good = sorted(ollama_models(tmp_path), key=lambda model: model.name)
    assert (good.name, good.problem) == ("good:1b", None)
    assert bad.problem is not None and any(part in bad.problem for part in problem.split("|"))
    with pytest.raises(NeighbourError, match="bad:1b"):
        bad.checked()


def test_parameters_of_ollama_that_cannot_be_read_are_a_problem(tmp_path: Path) -> None:
    layers = layered(("model", blob(tmp_path, GGUF)), ("params", blob(tmp_path, b"[1]")))
    manifest(tmp_path, f"{REGISTRY}/bad/1b", layers)
    assert "is no JSON object" in str(only(ollama_models(tmp_path)).problem)


def test_a_blob_that_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    digest = blob(tmp_path, GGUF)
    manifest(tmp_path, f"{REGISTRY}/damaged/1b", layered(("model", digest)))
    (tmp_path / "blobs" / digest.replace(":", "-")).write_bytes(GGUF + b"x")
    with pytest.raises(NeighbourError, match="is kept as") as caught:
        only(ollama_models(tmp_path)).checked()
    assert "download it again" in str(caught.value.advice)


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_any_json_in_the_place_of_a_manifest_is_a_problem_at_most(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    folder = tmp_path_factory.mktemp("ollama")
    manifest(folder, f"{REGISTRY}/any/1b", json.dumps({"layers": value}).encode())
    assert only(ollama_models(folder)).problem


def write(path: Path, content: bytes = GGUF) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_models_of_lm_studio_are_its_files_and_split_ones_are_one(tmp_path: Path) -> None:
    write(tmp_path / "pub" / "repo" / "tiny-Q4_0.gguf")
    write(tmp_path / "pub" / "repo" / "mmproj-tiny.gguf")
    write(tmp_path / "pub" / "repo" / "README.md")
    for part in (1, 2):
        write(tmp_path / "pub" / "big" / f"big-{part:05}-of-00002.gguf")
    write(tmp_path / "pub" / "half" / "half-00002-of-00002.gguf")
    models = {model.name: model for model in lm_studio_models(tmp_path)}
    assert list(models) == ["pub/big/big.gguf", "pub/half/half.gguf", "pub/repo/tiny-Q4_0.gguf"]
    big, half, tiny = models.values()
    assert big.path is not None and big.path.name == "big-00001-of-00002.gguf" and big.size == 2 * len(GGUF)
    assert half.problem is not None and "half-00001-of-00002.gguf" in half.problem
    assert (tiny.model_id, tiny.alias) == ("tiny-Q4_0", None)


def test_lm_studio_is_found_where_it_says_and_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert found_models("lmstudio") == ()
    write(tmp_path / ".cache" / "lm-studio" / "models" / "p" / "r" / "old.gguf")
    write(tmp_path / "moved" / "models" / "p" / "r" / "new.gguf")
    write(tmp_path / "chosen" / "p" / "r" / "own.gguf")
    (tmp_path / ".lmstudio-home-pointer").write_text(str(tmp_path / "moved"))
    settings = {"downloadsFolder": str(tmp_path / "chosen")}
    (tmp_path / "moved" / "settings.json").write_text(json.dumps(settings))
    assert [model.name for model in found_models("lmstudio")] == [
        "p/r/new.gguf",
        "p/r/old.gguf",
        "p/r/own.gguf",
    ]
    (tmp_path / "moved" / "settings.json").write_text("[" * 99_999)
    assert len(found_models("lmstudio")) == 2
    for name in ("\0", "\ud800"):
        (tmp_path / "moved" / "settings.json").write_text(
            json.dumps({"downloadsFolder": f"{tmp_path}{name}"})
        )
        assert len(found_models("lmstudio")) == 2
    (tmp_path / ".lmstudio-home-pointer").write_bytes(bytes(tmp_path / "moved") + b"\0")
    assert [model.name for model in found_models("lmstudio")] == ["p/r/old.gguf"]


@posix
def test_a_link_to_itself_among_the_models_of_lm_studio_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path / "pub" / "repo" / "tiny.gguf")
    for name in ("loop", "loop.gguf"):
        (tmp_path / "pub" / name).symlink_to(name)
    named = {model.name: model.problem is None for model in lm_studio_models(tmp_path)}
    assert named == {"pub/loop.gguf": False, "pub/repo/tiny.gguf": True}


def test_a_model_is_named_in_whole_or_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    digest = blob(tmp_path, GGUF)
    for name in ("llama3/latest", "llama3/8b", "qwen/1b"):
        manifest(tmp_path, f"{REGISTRY}/{name}", layered(("model", digest)))
    manifest(tmp_path, f"{REGISTRY}/bad/1b", b"{")
    assert find_model("ollama", "llama3").name == "llama3:latest"
    assert find_model("ollama", "qwen").name == "qwen:1b"
    with pytest.raises(NeighbourError, match="no model 'mistral'") as caught:
        find_model("ollama", "mistral")
    assert caught.value.advice == "it has: bad:1b, llama3:8b, llama3:latest, qwen:1b"
    with pytest.raises(NeighbourError, match="is not JSON"):
        find_model("ollama", "bad:1b")


def test_a_name_that_several_models_have_a_part_of_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    for tag in ("1b", "8b"):
        manifest(tmp_path, f"{REGISTRY}/llama3/{tag}", layered(("model", blob(tmp_path, GGUF))))
    with pytest.raises(NeighbourError, match="more than one") as caught:
        find_model("ollama", "llama3")
    assert caught.value.advice == "name one of these: llama3:1b, llama3:8b"


@posix
def test_names_with_line_breaks_and_bytes_that_are_no_text_are_listed_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    for name in ("two\nlines/1b", "b\udcff/1b", "größe/1b", "\x1b[2J/1b"):
        manifest(tmp_path, f"{REGISTRY}/{name}", b"{")
    with pytest.raises(NeighbourError) as caught:
        find_model("ollama", "nobody")
    names = [r"'\x1b[2J:1b'", r"'b\udcff:1b'", r"'two\nlines:1b'", "größe:1b"]
    assert sorted(str(caught.value.advice).removeprefix("it has: ").split(", ")) == names
    with pytest.raises(NeighbourError, match=r"'two\\nlines:1b'"):
        find_model("ollama", "two\nlines")


@pytest.mark.parametrize("models", [ollama_models, hf_cache_models])
def test_a_file_in_the_place_of_a_folder_is_told(
    tmp_path: Path, models: Callable[[Path], Sequence[FoundModel]]
) -> None:
    (tmp_path / "file").write_text("?")
    model = only(models(tmp_path / "file"))
    assert str(tmp_path / "file") in f"{model.name}: {model.problem}" and model.problem is not None
    assert not models(tmp_path / "none")


@posix
@pytest.mark.parametrize("inner", ["", "inner"])
def test_a_folder_of_models_that_may_not_be_read_is_told(tmp_path: Path, inner: str) -> None:
    closed = tmp_path / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0)
    if os.access(closed, os.R_OK):
        pytest.skip("this user may read all folders")
    model = only(ollama_models(closed / inner))
    closed.chmod(0o755)
    assert (model.name, model.problem) == (str(closed / inner), "Permission denied")


@posix
def test_a_link_to_itself_in_the_place_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert only(ollama_models(tmp_path / "loop")).problem


def test_many_names_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    for number in range(50):
        manifest(tmp_path, f"{REGISTRY}/llama{number:02}/1b", b"{")
    with pytest.raises(NeighbourError) as caught:
        find_model("ollama", "nobody")
    assert str(caught.value.advice).endswith("llama38:1b, llama39:1b and 10 more")


def test_a_program_that_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="ollama, lmstudio, hf-cache"):
        found_models("winamp")


def test_a_name_without_anything_for_an_id_is_refused() -> None:
    with pytest.raises(InvalidModelId):
        _ = FoundModel(name="日本:語").model_id
