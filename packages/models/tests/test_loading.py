"""Loading a model: one pass over the file, named errors, the facts of the file."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from rase_core.errors import (
    BackendFailure,
    BackendUnavailable,
    EngineError,
    InvalidGguf,
    InvalidParameter,
    ModelFileNotFound,
    UnsupportedFormat,
)
from rase_core.progress import ProgressEvent, ProgressPhase
from rase_models.architectures import build_program
from rase_models.backends import BACKENDS, BackendPlace, load_backend
from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.reference import ReferenceBackend, ReferenceRunner
from rase_models.gguf import Weight, open_gguf
from rase_models.kv_budget import KvBudget
from rase_models.loading import load_decoder, load_on
from rase_models.program import Program
from rase_models.testing import END, VOCABULARY

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


def test_a_model_decodes_as_its_file_says(tiny_path: Path) -> None:
    decoder = load_decoder(str(tiny_path), "reference")
    assert (decoder.vocab_size, decoder.context_length) == (len(VOCABULARY), 128)
    assert decoder.eos_tokens == {VOCABULARY.index("<|endoftext|>"), END}
    assert decoder.prefill([1, 2]).shape == (len(VOCABULARY),)


@pytest.mark.slow
def test_a_real_model_decodes(smollm2_path: Path) -> None:
    prompt = [504, 3575, 282, 4649, 314]  # "The capital of France is"
    assert int(np.argmax(load_decoder(smollm2_path, "reference").prefill(prompt))) == 7042  # " Paris"


def test_a_shorter_context_can_be_asked_for() -> None:
    assert load_decoder(MODEL, "reference", context_length=17).context_length == 17


@pytest.mark.parametrize("length", [0, -1, 257])
def test_a_context_that_the_model_has_not_is_refused(length: int) -> None:
    with pytest.raises(InvalidParameter, match=f"invalid context_length: {length}, expected 1 to 256"):
        load_decoder(MODEL, "reference", context_length=length)


def test_a_device_that_is_unknown_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BackendUnavailable, match="the abacus backend is unavailable") as caught:
        load_decoder(MODEL, "abacus")
    assert caught.value.advice is not None and "reference, cpu" in caught.value.advice


def test_a_backend_that_lacks_a_library_names_the_extra() -> None:
    places = {"fancy": BackendPlace("a_library_that_nobody_has", "Backend", ("fancy",))}
    with pytest.raises(BackendUnavailable, match="'a_library_that_nobody_has' is not installed") as caught:
        load_backend("fancy", places)
    assert caught.value.advice == "pip install 'rase-models[fancy]'"


@pytest.mark.parametrize("fault", ["ImportError('numba needs another numpy')", "OSError('cannot open it')"])
def test_a_backend_whose_library_is_broken_says_so(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_broken_library.py").write_text(f"raise {fault}")
    monkeypatch.syspath_prepend(tmp_path)
    places = {"fancy": BackendPlace("a_broken_library", "Backend", ("fancy",))}
    with pytest.raises(BackendUnavailable, match=r"a library cannot be loaded: (numba|cannot)") as caught:
        load_backend("fancy", places)
    assert "pip install 'rase-models[fancy]'" in str(caught.value.advice)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_bears_the_name_that_it_is_found_by(name: str) -> None:
    try:
        backend = load_backend(name)
    except BackendUnavailable as error:
        pytest.skip(error.reason)
    assert backend.name == name


def test_files_that_cannot_be_loaded_are_named(tmp_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("not a model")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(MODEL.read_bytes()[:-1000])
    expected = {tmp_path / "none.gguf": ModelFileNotFound, text: UnsupportedFormat, cut: InvalidGguf}
    for path, error in expected.items():
        with pytest.raises(error, match=path.name):
            load_decoder(path, "reference")


class FailingBackend(ReferenceBackend):
    """Reads one weight and fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def load(self, program: Program, weights: Iterator[Weight], *_: object) -> ReferenceRunner:
        next(weights)
        raise self.error


def test_weights_that_do_not_fit_into_memory_are_a_named_error() -> None:
    with pytest.raises(BackendFailure, match=r"llama-Q2_K.gguf: not enough memory for the weights"):
        load_on(FailingBackend(MemoryError()), open_gguf(MODEL))


def test_a_library_that_breaks_while_loading_is_a_named_error() -> None:
    with pytest.raises(BackendUnavailable, match="the reference backend is unavailable: a library cannot"):
        load_on(FailingBackend(ImportError("Numba needs NumPy 2.5 or less")), open_gguf(MODEL))


FAULTS = [
    TimeoutError(),
    OSError("no number"),
    ImportError("mine"),
    ModuleNotFoundError("mine"),
    MemoryError(),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize(
    "load",
    [
        lambda hear: load_decoder(MODEL, "reference", progress=hear),
        lambda hear: load_decoder(MODEL, "reference", on_bytes=hear),
    ],
    ids=["progress", "bytes"],
)
def test_what_a_callback_raises_is_not_taken_for_a_fault_of_the_backend(
    fault: Exception, load: Callable[[Callable[..., None]], object]
) -> None:
    def fail(*_: object) -> None:
        raise fault

    with pytest.raises(type(fault)) as caught:
        load(fail)
    assert caught.value is fault


class NotedRunner(ReferenceRunner):
    """Notes that it was closed."""

    closed = 0

    def close(self) -> None:
        super().close()
        NotedRunner.closed += 1


class NotedBackend(ReferenceBackend):
    """Makes such runners."""

    def load(self, program: Program, weights: Iterator[Weight], *_: object) -> ReferenceRunner:
        list(weights)
        return NotedRunner(program, {})


class PickyBudget(KvBudget):
    """Finds fault when all is loaded."""

    def sequences(self, state_nbytes: int) -> int | None:
        raise InvalidParameter("kv_memory", self.nbytes, "more")


def test_a_runner_that_cannot_be_used_is_closed() -> None:
    with pytest.raises(InvalidParameter, match="expected more"):
        load_on(NotedBackend(), open_gguf(MODEL), kv_budget=PickyBudget(1 << 30))
    assert NotedRunner.closed == 1


def test_a_budget_that_is_too_small_is_found_before_the_weights_are_read() -> None:
    budget, seen = KvBudget(1), []
    with pytest.raises(InvalidParameter, match="invalid kv_memory: 1, expected at least"):
        load_decoder(MODEL, "reference", kv_budget=budget, on_bytes=lambda part, data: seen.append(part))
    assert seen == []


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_a_backend_knows_the_size_of_a_block_before_it_loads(device: str) -> None:
    program = build_program(open_gguf(MODEL))
    values = sum(kv.head_count_kv * (kv.key_length + kv.value_length) for kv in program.kv_layers)
    assert (
        values * BLOCK_TOKENS * 2 <= load_backend(device).block_nbytes(program) <= values * BLOCK_TOKENS * 5
    )


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
