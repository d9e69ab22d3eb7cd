"""Models in the cache of Hugging Face: which are there, and what is odd about others."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rase_core.neighbours.hf_cache import hf_cache_models

GGUF = b"GGUF" + bytes(60)
posix = pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")


def write(path: Path, content: bytes = GGUF) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def cached(cache: Path, repo: str, commit: str, files: dict[str, bytes], branch: str | None = "main") -> Path:
    """Make a repository as huggingface_hub keeps it: blobs, links to them, and a note of the branch."""
    folder = cache / f"models--{repo.replace('/', '--')}"
    for name, content in files.items():
        target = write(folder / "blobs" / hashlib.sha256(content).hexdigest(), content)
        link = folder / "snapshots" / commit / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    if branch is not None:
        write(folder / "refs" / branch, commit.encode())
    return folder


@posix
def test_models_in_the_cache_of_hugging_face_are_files_at_commits(tmp_path: Path) -> None:
    cached(tmp_path, "own/repo", "a" * 40, {"sub/tiny.gguf": GGUF + b"new", "config.json": b"{}"})
    cached(tmp_path, "own/repo", "b" * 40, {"sub/tiny.gguf": GGUF, "other.gguf": GGUF}, branch=None)
    models = {model.name: model for model in hf_cache_models(tmp_path)}
    assert sorted(models) == ["own/repo/other.gguf", "own/repo/sub/tiny.gguf"]
    tiny = models["own/repo/sub/tiny.gguf"]
    assert tiny.source is not None and tiny.source.revision == "a" * 40
    assert tiny.path is not None and tiny.path.name == "tiny.gguf"
    assert tiny.checked() == {tiny.path: hashlib.sha256(GGUF + b"new").hexdigest()}


@posix
def test_a_link_that_leads_nowhere_hides_no_other_file_of_its_repository(tmp_path: Path) -> None:
    folder = cached(tmp_path, "own/repo", "a" * 40, {"gone.gguf": GGUF + b"1", "tiny.gguf": GGUF})
    (folder / "blobs" / hashlib.sha256(GGUF + b"1").hexdigest()).unlink()
    (folder / "snapshots" / ("a" * 40) / "loop.gguf").symlink_to("loop.gguf")
    cached(tmp_path, "own/repo", "b" * 40, {"older.gguf": GGUF}, branch="v1")
    problems = {model.name: model.problem for model in hf_cache_models(tmp_path)}
    assert problems.pop("own/repo/tiny.gguf") is problems.pop("own/repo/older.gguf") is None
    assert sorted(problems) == ["own/repo/gone.gguf", "own/repo/loop.gguf"]
    assert str(problems["own/repo/gone.gguf"]).endswith("gone.gguf: No such file or directory")


@posix
def test_a_file_that_is_gone_from_the_main_branch_is_taken_from_another_commit(tmp_path: Path) -> None:
    folder = cached(tmp_path, "own/repo", "a" * 40, {"tiny.gguf": GGUF + b"new"})
    cached(tmp_path, "own/repo", "b" * 40, {"tiny.gguf": GGUF}, branch=None)
    (folder / "blobs" / hashlib.sha256(GGUF + b"new").hexdigest()).unlink()
    (model,) = hf_cache_models(tmp_path)
    assert model.problem is None and model.source is not None and model.source.revision == "b" * 40


@posix
@pytest.mark.parametrize("spoil", ["no snapshot", "a branch of nowhere", "a file as a commit", "a stray"])
def test_what_else_is_odd_in_a_cache_hides_no_model(tmp_path: Path, spoil: str) -> None:
    folder = cached(tmp_path, "own/good", "a" * 40, {"tiny.gguf": GGUF})
    places = {
        "no snapshot": tmp_path / "models--own--half" / "refs" / "main",
        "a branch of nowhere": folder / "refs" / "gone",
        "a file as a commit": folder / "snapshots" / "file",
        "a stray": tmp_path / "models--stray",
    }
    write(places[spoil], b"b" * 40)
    assert [(m.name, m.problem) for m in hf_cache_models(tmp_path)] == [("own/good/tiny.gguf", None)]


@posix
def test_a_folder_that_may_not_be_read_is_told_and_the_rest_is_listed(tmp_path: Path) -> None:
    cached(tmp_path, "own/good", "a" * 40, {"tiny.gguf": GGUF})
    closed = cached(tmp_path, "own/bad", "a" * 40, {"tiny.gguf": GGUF}) / "snapshots" / ("a" * 40)
    closed.chmod(0)
    if os.access(closed, os.R_OK):
        pytest.skip("this user may read all folders")
    problems = {model.name: model.problem for model in hf_cache_models(tmp_path)}
    closed.chmod(0o755)
    assert problems == {"own/good/tiny.gguf": None, "own/bad": f"{closed}: Permission denied"}


CACHE_OF = """
from rase_core.hub_cache import hub_constants
found = hub_constants()
print(found.HF_HUB_CACHE, found.HF_TOKEN_PATH, found.ENDPOINT)
"""


@pytest.mark.parametrize(
    "names", [("HF_HUB_CACHE",), ("HF_HOME", "XDG_CACHE_HOME"), ("HUGGINGFACE_HUB_CACHE", "HF_ENDPOINT")]
)
def test_an_empty_variable_of_the_hub_is_an_unset_one(tmp_path: Path, names: tuple[str, ...]) -> None:
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(("HF_", "HUGGING", "XDG_"))
    }
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", CACHE_OF],
        env=kept | home | dict.fromkeys(names, ""),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    place = tmp_path / ".cache" / "huggingface"
    assert found.stdout.split() == [str(place / "hub"), str(place / "token"), "https://huggingface.co"]
