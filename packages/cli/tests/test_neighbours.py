"""Models of other programs, registered where they are, and the names by which models go."""

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
IMAGE = "application/vnd.ollama.image."


def succeed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def digest(smollm2_path: Path) -> str:
    return hashlib.sha256(smollm2_path.read_bytes()).hexdigest()


@pytest.fixture
def ollama(tmp_path: Path, smollm2_path: Path, digest: str) -> Path:
    """A folder of models as Ollama leaves it: SmolLM2, a broken manifest, and one with an adapter."""
    folder = tmp_path / "ollama"
    (folder / "blobs").mkdir(parents=True)
    (folder / "blobs" / f"sha256-{digest}").symlink_to(smollm2_path)
    parameters = b'{"stop": ["<|im_end|>"], "temperature": 0, "num_ctx": 2048}'
    settings = hashlib.sha256(parameters).hexdigest()
    (folder / "blobs" / f"sha256-{settings}").write_bytes(parameters)
    manifests = {
        "smollm2": {"model": digest, "params": settings},
        "tuned": {"model": digest, "adapter": digest},
    }
    for name, layers in manifests.items():
        found = [{"mediaType": IMAGE + kind, "digest": f"sha256:{hex_}"} for kind, hex_ in layers.items()]
        write(folder, name, json.dumps({"layers": found}))
    write(folder, "broken", '{"layers": [')
    return folder


def write(folder: Path, name: str, text: str) -> None:
    path = folder / "manifests" / "registry.ollama.ai" / "library" / name / "135m"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_what_ollama_has_is_listed_with_what_is_wrong(rase: Run, ollama: Path, smollm2_path: Path) -> None:
    lines = succeed(rase("model", "import", "--from", "ollama", OLLAMA_MODELS=str(ollama))).splitlines()
    broken, smol, tuned = (line.split("\t") for line in lines)
    assert broken[0] == "broken:135m" and "is not JSON" in broken[2]
    assert smol == ["smollm2:135m", str(smollm2_path.stat().st_size), ""]
    assert tuned[0] == "tuned:135m" and "adapter" in tuned[2]
    listing = json.loads(
        succeed(rase("model", "import", "--from", "ollama", "--json", OLLAMA_MODELS=str(ollama)))
    )
    assert [model["name"] for model in listing["models"]] == ["broken:135m", "smollm2:135m", "tuned:135m"]


def test_a_model_of_ollama_answers_in_place_under_both_names(rase: Run, ollama: Path, digest: str) -> None:
    done = rase("model", "import", "--from", "ollama", "smollm2", OLLAMA_MODELS=str(ollama))
    succeed(done)
    assert "num_ctx" in done.stderr and "also smollm2:135m" in done.stderr
    model = json.loads(succeed(rase("model", "inspect", "smollm2:135m", "--json")))
    assert (model["id"], model["aliases"]) == ("smollm2-135m", ["smollm2:135m"])
    assert model["weights"][0]["path"] == str(ollama / "blobs" / f"sha256-{digest}")
    assert model["defaults"] == {"stop": ["<|im_end|>"], "temperature": 0}
    assert not list(ollama.glob("**/*.toml"))
    question = ("What is the capital of France?", "--max-tokens", "12")
    answer = succeed(rase("chat", "smollm2:135m", *question))
    assert answer == succeed(rase("chat", "--model", "smollm2-135m", *question)) != ""


def test_what_cannot_be_used_is_refused_by_name(rase: Run, ollama: Path) -> None:
    for name, reason in (("tuned", "adapter"), ("broken", "is not JSON"), ("nobody", "has no model")):
        done = rase("model", "import", "--from", "ollama", name, OLLAMA_MODELS=str(ollama))
        assert done.returncode == 1 and reason in done.stderr
    done = rase("model", "import", "--from", "ollama", "smollm2", "--architecture", "llama")
    assert done.returncode == 2 and "--from" in done.stderr
    assert succeed(rase("model", "list")) == ""


def test_a_damaged_blob_is_found_out(rase: Run, ollama: Path, smollm2_path: Path, digest: str) -> None:
    blob = ollama / "blobs" / f"sha256-{digest}"
    content = bytearray(smollm2_path.read_bytes())
    content[-1] ^= 1
    blob.unlink()
    blob.write_bytes(bytes(content))
    done = rase("model", "import", "--from", "ollama", "smollm2", OLLAMA_MODELS=str(ollama))
    assert done.returncode == 1 and f"is kept as {digest}" in done.stderr
    assert succeed(rase("model", "list")) == ""


def test_models_of_lm_studio_are_registered(rase: Run, home: dict[str, str], smollm2_path: Path) -> None:
    folder = Path(home["HOME"]) / ".lmstudio" / "models" / "HuggingFaceTB" / "SmolLM2"
    folder.mkdir(parents=True)
    (folder / smollm2_path.name).symlink_to(smollm2_path)
    name = f"HuggingFaceTB/SmolLM2/{smollm2_path.name}"
    assert succeed(rase("model", "import", "--from", "lmstudio")).startswith(f"{name}\t")
    succeed(rase("model", "import", "--from", "lmstudio", "HuggingFaceTB/SmolLM2"))
    model = json.loads(succeed(rase("model", "inspect", smollm2_path.stem, "--json")))
    assert model["weights"][0]["path"] == str(folder / smollm2_path.name)


def test_models_in_the_cache_of_hugging_face_are_registered(
    rase_process: Run, tmp_path: Path, smollm2_path: Path, digest: str
) -> None:
    repo = tmp_path / "hub" / "models--maker--smol-GGUF"
    commit = "a" * 40
    for folder in ("blobs", "refs", f"snapshots/{commit}"):
        (repo / folder).mkdir(parents=True)
    (repo / "refs" / "main").write_text(commit)
    (repo / "blobs" / digest).symlink_to(smollm2_path)
    (repo / "snapshots" / commit / "smol-Q4_1.gguf").symlink_to(repo / "blobs" / digest)
    cache = {"HF_HUB_CACHE": str(tmp_path / "hub")}
    listing = succeed(rase_process("model", "import", "--from", "hf-cache", **cache))
    assert listing.startswith("maker/smol-GGUF/smol-Q4_1.gguf\t")
    succeed(rase_process("model", "import", "--from", "hf-cache", "maker/smol-GGUF", "--id", "s", **cache))
    model = json.loads(succeed(rase_process("model", "inspect", "s", "--json")))
    assert model["source"] == {"repo": "maker/smol-GGUF", "file": "smol-Q4_1.gguf", "revision": commit}


def test_a_model_goes_by_its_aliases(rase: Run, smol: str) -> None:
    succeed(rase("model", "alias", smol, "gpt-4o", "llama3.2:1b"))
    assert succeed(rase("model", "list")).endswith("\tgpt-4o,llama3.2:1b\n")
    assert succeed(rase("model", "verify", "gpt-4o")) == "gpt-4o\tok\t\n"
    assert rase("model", "alias", smol, smol).returncode == 2
    assert rase("model", "remove", "gpt-4o").returncode == 2
    succeed(rase("model", "alias", smol, "gpt-4o", "--remove"))
    assert succeed(rase("model", "list")).endswith("\tllama3.2:1b\n")
    assert rase("model", "inspect", "gpt-4o").returncode == 3


def test_the_memory_of_a_model_is_estimated(rase: Run, smol: str) -> None:
    options = ("--estimate", "--context-length", "1024", "--kv-memory", "50MB", "--json")
    plan = json.loads(succeed(rase("model", "inspect", smol, *options)))
    assert plan["total"] == sum(
        plan[part] for part in ("weights", "keys_and_values", "states", "workspace", "vocabulary")
    )
    assert plan["context_length"] == 1024 and 0 < plan["keys_and_values"] <= 50_000_000
    limited = json.loads(
        succeed(rase("model", "inspect", smol, "--estimate", "--max-memory", "2GB", "--json"))
    )
    assert limited["keys_and_values"] <= 500_000_000 and limited["total"] < 1_000_000_000


def test_a_model_of_ollama_that_is_registered_stays_as_it_is(
    rase: Run, ollama: Path, home: dict[str, str]
) -> None:
    again = ("model", "import", "--from", "ollama", "smollm2")
    succeed(rase(*again, OLLAMA_MODELS=str(ollama)))
    first = succeed(rase("model", "list", "--json"))
    done = rase(*again, OLLAMA_MODELS=str(ollama))
    assert "kept from before: defaults, aliases\n" in done.stderr
    assert "left out: smollm2-135m keeps" not in done.stderr
    assert succeed(rase("model", "list", "--json")) == first
    succeed(rase("model", "alias", "smollm2-135m", "smollm2:135m", "--remove"))
    path = Path(home["RASE_STORE"]) / "manifests" / "smollm2-135m.toml"
    path.write_text(path.read_text().replace("temperature = 0", "temperature = 0.5"))
    mine = succeed(rase("model", "list", "--json"))
    done = rase(*again, OLLAMA_MODELS=str(ollama))
    assert "smollm2:135m: its parameters are left out: smollm2-135m keeps those it has" in done.stderr
    assert succeed(rase("model", "list", "--json")) == mine
    succeed(rase(*again, "--replace", OLLAMA_MODELS=str(ollama)))
    assert json.loads(succeed(rase("model", "list", "--json"))) == json.loads(first)
