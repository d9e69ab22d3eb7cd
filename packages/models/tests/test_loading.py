"""Loading a model: one pass over the file, named errors, the facts of the file."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from rase_core.errors import (
    BackendFailure,
    BackendUnavailable,
    EngineError,
    InvalidGenerationConfig,
    InvalidGguf,
    ModelFileNotFound,
    UnsupportedFormat,
)
from rase_core.progress import ProgressEvent, ProgressPhase
from rase_models import backends, loading
from rase_models.backends import BACKENDS, BackendPlace, load_backend
from rase_models.loading import load_decoder

MODEL = Path(__file__).with_name("data") / "llama-Q2_K.gguf"


def test_the_hash_comes_of_the_pass_that_loads() -> None:
    digest = hashlib.sha256()
    load_decoder(MODEL, "reference", on_bytes=lambda part, data: digest.update(data))
    assert digest.hexdigest() == hashlib.sha256(MODEL.read_bytes()).hexdigest()


def test_progress_ends_with_the_size_of_the_file() -> None:
    events: list[ProgressEvent] = []
    seen = bytearray()
    load_decoder(MODEL, "reference", on_bytes=lambda part, data: seen.extend(data), progress=events.append)
    done = [event.done for event in events]
    assert done == sorted(done) and done[-1] == len(seen) == MODEL.stat().st_size
    assert {(e.phase, e.file, e.total) for e in events} == {(ProgressPhase.LOAD, str(MODEL), len(seen))}


def test_a_model_decodes_as_its_file_says(smollm2_path: Path) -> None:
    decoder = load_decoder(str(smollm2_path), "reference")
    assert (decoder.vocab_size, decoder.context_length) == (49152, 8192)
    assert {0, 2} <= decoder.eos_tokens
    prompt = [504, 3575, 282, 4649, 314]  # "The capital of France is"
    assert int(np.argmax(decoder.prefill(prompt))) == 7042  # " Paris"


def test_a_shorter_context_can_be_asked_for() -> None:
    assert load_decoder(MODEL, "reference", context_length=17).context_length == 17


@pytest.mark.parametrize("length", [0, -1, 257])
def test_a_context_that_the_model_has_not_is_refused(length: int) -> None:
    with pytest.raises(InvalidGenerationConfig, match=f"invalid context_length: {length}, expected 1 to 256"):
        load_decoder(MODEL, "reference", context_length=length)


def test_a_device_that_is_unknown_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BackendUnavailable, match="the abacus backend is unavailable") as caught:
        load_decoder(MODEL, "abacus")
    assert caught.value.advice is not None and "reference, cpu" in caught.value.advice


def test_a_backend_that_lacks_a_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    place = BackendPlace("a_library_that_nobody_has", "Backend", "fancy")
    monkeypatch.setattr(backends, "BACKENDS", {"fancy": place})
    with pytest.raises(BackendUnavailable, match="'a_library_that_nobody_has' is not installed") as caught:
        load_backend("fancy")
    assert caught.value.advice == "pip install 'rase-models[fancy]'"


def test_every_backend_bears_the_name_that_it_is_found_by() -> None:
    assert [load_backend(name).name for name in BACKENDS] == list(BACKENDS)


def test_files_that_cannot_be_loaded_are_named(tmp_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("not a model")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(MODEL.read_bytes()[:-1000])
    expected = {tmp_path / "none.gguf": ModelFileNotFound, text: UnsupportedFormat, cut: InvalidGguf}
    for path, error in expected.items():
        with pytest.raises(error, match=path.name):
            load_decoder(path, "reference")


def test_weights_that_do_not_fit_into_memory_are_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        name = "full"

        def load(self, *args: object) -> None:
            raise MemoryError

    monkeypatch.setattr(loading, "load_backend", lambda name: Full())
    with pytest.raises(BackendFailure, match=r"llama-Q2_K.gguf: not enough memory for the weights"):
        load_decoder(MODEL, "full")


def test_a_caller_that_gives_up_while_bytes_come_ends_the_load() -> None:
    class GivenUpError(Exception):
        pass

    def give_up(part: int, data: memoryview) -> None:
        raise GivenUpError

    with pytest.raises(GivenUpError):
        load_decoder(MODEL, "reference", on_bytes=give_up)


def test_random_changes_of_the_header_are_named_errors_or_normal_loads(tmp_path: Path) -> None:
    rng, whole, path = np.random.default_rng(0), MODEL.read_bytes(), tmp_path / "changed.gguf"
    for _ in range(150):
        changed = bytearray(whole)
        changed[rng.integers(0, 12000)] = rng.integers(0, 256)
        path.write_bytes(changed)
        try:
            assert load_decoder(path, "reference").logits([1, 2]).shape[0] == 2
        except EngineError as error:
            assert error.message
