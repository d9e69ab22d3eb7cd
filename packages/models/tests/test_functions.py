"""The flat functions over the process-wide cache."""

import inspect
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from rase_core.errors import BackendUnavailable, InvalidParameter, ModelFileNotFound, ModelNotFound
from rase_models import functions
from rase_models.gguf import open_gguf
from rase_models.testing import write_tiny_model

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def store(tmp_path: Path, tiny_path: Path) -> Iterator[str]:
    store = str(tmp_path / "store")
    functions.import_model(store, str(tiny_path), "tiny", chat_template="chatml")
    yield store
    functions.unload_models()


def test_the_names_arguments_and_defaults_are_the_promised_ones() -> None:
    registration = "kind='generator', architecture=None, context_length=None, chat_template=None"
    sampling = "max_tokens=256, temperature=0.7, top_k=40, seed=0"
    promised = {
        "import_model": f"store, path, id, {registration}",
        "pull_model": f"store, repo, file, id, {registration}",
        "inspect_model": "store, id",
        "list_models": "store",
        "verify_model": "store, id",
        "attach_tokenizer": "store, id, tokenizer",
        "unload_models": "",
        "probe_runtime": "device='auto'",
        "generate_registered_gguf": f"store, id, prompt, {sampling}, stop_tokens=(), device='auto'",
        "generate_chat_registered_gguf": f"store, id, messages, {sampling}, device='auto'",
        "generate_chat_stream_registered_gguf": f"store, id, messages, on_delta, {sampling}, device='auto'",
        "generate_llama_gguf": f"weights, tokenizer, prompt, {sampling}, stop_tokens=(), device='auto'",
        "profiling_snapshot": "reset=True",
        "gpu_info": "",
    }
    for name, parameters in promised.items():
        signature = inspect.signature(getattr(functions, name))
        found = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
        assert ", ".join(map(str, found)) == parameters, name


def test_manifests_are_toml(store: str, tiny_path: Path) -> None:
    manifest = tomllib.loads(functions.inspect_model(store, "tiny"))
    assert (manifest["id"], manifest["architecture"], manifest["weights"]) == (
        "tiny",
        "llama",
        str(tiny_path),
    )
    assert functions.verify_model(store, "tiny") == functions.inspect_model(store, "tiny")
    assert functions.list_models(store) == ["tiny"]


def test_the_same_arguments_give_the_same_text(store: str) -> None:
    def generate(seed: int) -> str:
        return functions.generate_registered_gguf(
            store, "tiny", "Hello", 12, temperature=3.0, seed=seed, device="reference"
        )

    assert generate(3)
    assert generate(3) == generate(3) != generate(4)


def test_a_chat_is_the_same_streamed_and_not(store: str) -> None:
    whole = functions.generate_chat_registered_gguf(store, "tiny", HELLO, 12, device="reference")
    told: list[str] = []
    text = functions.generate_chat_stream_registered_gguf(
        store, "tiny", HELLO, told.append, 12, device="reference"
    )
    assert whole == text == "".join(told)


def test_false_ends_a_stream_and_returns_what_there_is(store: str) -> None:
    told: list[str] = []

    def once(text: str) -> bool:
        told.append(text)
        return False

    text = functions.generate_chat_stream_registered_gguf(store, "tiny", HELLO, once, device="reference")
    assert [text] == told


def test_top_k_none_is_off_and_stop_tokens_stop(store: str) -> None:
    everything = functions.generate_registered_gguf(
        store, "tiny", "Hello", 5, top_k=None, stop_tokens=list(range(260)), device="reference"
    )
    assert everything == ""


def test_models_stay_in_memory_between_calls(store: str, tmp_path: Path) -> None:
    weights = write_tiny_model(tmp_path / "passing.gguf")
    functions.import_model(store, str(weights), "passing")
    first = functions.generate_registered_gguf(store, "passing", "Hello", 1, device="reference")
    weights.unlink()
    assert functions.generate_registered_gguf(store, "passing", "Hello", 1, device="reference") == first
    functions.unload_models()
    with pytest.raises(ModelFileNotFound):
        functions.generate_registered_gguf(store, "passing", "Hello", 1, device="reference")


def test_a_file_runs_without_a_store(tiny_path: Path, store: str) -> None:
    text = functions.generate_llama_gguf(str(tiny_path), str(tiny_path), "Hello", 12, device="reference")
    assert text == functions.generate_registered_gguf(store, "tiny", "Hello", 12, device="reference")


def test_a_model_that_is_registered_again_stays_of_its_kind(store: str, tiny_path: Path) -> None:
    assert 'kind = "embedding"' in functions.import_model(store, str(tiny_path), "tiny", kind="embedding")
    assert 'kind = "embedding"' in functions.import_model(store, str(tiny_path), "tiny")


def test_failures_are_named(store: str, tiny_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        functions.inspect_model(store, "big")
    with pytest.raises(InvalidParameter, match="kind: 'poet', expected generator or embedding"):
        functions.import_model(store, str(tiny_path), "tiny", kind="poet")
    with pytest.raises(BackendUnavailable, match="cuda") as caught:
        functions.probe_runtime("cuda")
    assert caught.value.advice
    assert open_gguf(tiny_path).parts == (tiny_path,)


def test_the_runtime_is_probed() -> None:
    assert functions.probe_runtime("reference") == "backend=reference; accelerated=false"


def test_the_counters_are_a_json_object() -> None:
    assert set(json.loads(functions.profiling_snapshot()).values()) == {0}


def test_the_gpu_is_inactive_where_there_is_none() -> None:
    assert functions.gpu_info().startswith(("fallback: cuda: ", "active: "))
