"""A GPU that is lost while it computes, by the emulation: requests go on, on the CPU."""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rase_core.errors import BackendUnavailable, DeviceLost
from rase_core.generation import Generation
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import Piece
from rase_models import Engine
from rase_models.backends.cuda import CudaBackend
from rase_models.gguf import open_gguf
from rase_models.loading import load_decoder, load_on
from rase_models.lost_devices import LOST_DEVICES, LostDevices
from rase_models.request import Completion, Terms
from rase_models.room import Check, nothing_against
from rase_models.session import Session
from rase_models.session_loader import SessionLoader
from rase_models.standby import Spare, Standby
from rase_models.testing import write_tiny_model
from rase_models.testing_cuda import EmulatedDevice, has_compiler
from rase_models.testing_sketches import sketch, write_gguf

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no g++ to compile CUDA C for the CPU")

GREEDY = GenerationConfig(temperature=0, max_tokens=10, ignore_eos=True)
SEEDED = GenerationConfig(temperature=1, seed=3, max_tokens=10, ignore_eos=True)
GPU = "cuda:9"
"""No test loads anything else on it: it stays lost for this process."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "store", "reference") as engine:
        engine.import_model(write_tiny_model(tmp_path / "tiny.gguf"), "tiny")
        yield engine


def session_on(device: EmulatedDevice, engine: Engine) -> Session:
    """Return a session whose decoder is on the device, as the loader makes one on a GPU."""
    session, path = engine.load("tiny"), engine.inspect("tiny").weights_path
    emulated = load_on(CudaBackend(device), open_gguf(path))

    def spare(check: Check) -> Spare:
        return Spare(load_decoder(path, "cpu"))

    return Session(session.manifest, GPU, emulated, session.tokenizer, session.template, load_spare=spare)


def ask(session: Session, config: GenerationConfig, n: int = 1) -> tuple[str, tuple[Generation, ...]]:
    """Return what was streamed, and the answers."""
    question = Completion("Hello there", Terms(config=config, n=n))
    handle = session.submit(question.request(session))
    streamed = "".join(piece.text for piece in handle if isinstance(piece, Piece) and not piece.choice)
    return streamed, handle.result()


@pytest.mark.parametrize("config", [GREEDY, SEEDED])
def test_requests_go_on_where_they_were_when_the_device_is_lost(
    engine: Engine, config: GenerationConfig
) -> None:
    sound = EmulatedDevice()
    whole = ask(session := session_on(sound, engine), config)[1][0]
    session.retire()
    device = EmulatedDevice(lost_at=sound.launches * 2 // 3)
    session = session_on(device, engine)
    streamed, (answer,) = ask(session, config)
    assert len(answer.tokens) == 10
    assert streamed == answer.text == whole.text  # nothing twice, nothing missing
    assert session.device == "cpu"
    assert f"the {GPU} device was lost: cudaErrorLaunchFailure" in str(session.fallback)
    assert session.snapshot().totals.device_losses == 1
    assert not session.snapshot().totals.failed
    session.finish(10)
    assert device.held_nbytes == 0


@pytest.mark.parametrize("share", [0.02, 0.4, 0.9])
def test_it_does_not_matter_when_the_device_is_lost(engine: Engine, share: float) -> None:
    sound = EmulatedDevice()
    session = session_on(sound, engine)
    wanted = [answer.text for answer in ask(session, SEEDED, n=3)[1]]
    session.retire()
    session = session_on(EmulatedDevice(lost_at=max(int(sound.launches * share), 1)), engine)
    assert [answer.text for answer in ask(session, SEEDED, n=3)[1]] == wanted
    session.retire()


def test_tokens_after_the_loss_are_the_cpu_s_own(engine: Engine) -> None:
    session = session_on(EmulatedDevice(lost_at=1), engine)
    answer = ask(session, GREEDY)[1][0]
    session.retire()
    path = engine.inspect("tiny").weights_path
    decoder = load_decoder(path, "cpu")
    prompt = engine.load("tiny").tokenizer.encode_prompt("Hello there")
    logits = np.asarray(decoder.logits([*prompt, *answer.tokens]))[len(prompt) - 1 : -1]
    decoder.close()
    assert tuple(logits.argmax(axis=1)) == answer.tokens


def test_states_that_a_lost_device_does_not_copy_are_told_of_by_the_next_run(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", "mamba2", *sketch("mamba2"))
    device = EmulatedDevice()
    decoder = load_on(CudaBackend(device), open_gguf(path))
    decoder.prefill([1, 2, 3])
    device.lost_at = device.launches
    handle = decoder.fork(0, 3)
    decoder.release(handle)
    with pytest.raises(DeviceLost):
        decoder.decode(4)
    decoder.close()
    assert device.held_nbytes == 0


def test_a_loss_is_logged_once_and_the_cpu_is_used_from_then_on(caplog: pytest.LogCaptureFixture) -> None:
    lost = LostDevices()
    assert lost.usable("cuda") == "cuda"
    with caplog.at_level(logging.ERROR, "rase_models"):
        lost.add("cuda", DeviceLost("cuda", "cudaErrorLaunchFailure"))
        lost.add("cuda:0", DeviceLost("cuda", "cudaErrorLaunchFailure"))
    assert [record.message for record in caplog.records] == [
        "the cuda device was lost: cudaErrorLaunchFailure; the cpu computes from now on"
    ]
    assert (lost.usable("cuda:0"), lost.usable("cuda:1")) == ("cpu", "cuda:1")


def test_a_model_that_is_to_be_loaded_on_a_lost_device_is_on_the_cpu_and_says_why(engine: Engine) -> None:
    LOST_DEVICES.add(GPU, DeviceLost("cuda", "cudaErrorLaunchFailure"))
    with Engine(engine.store, GPU) as other:
        assert other.device == "cpu"
        session = other.load("tiny")
        assert (session.device, "was lost" in str(session.fallback)) == ("cpu", True)
        assert other.gpu_info().startswith(f"fallback: tiny: the {GPU} device was lost")
        assert len(other.generate("tiny", "Hello", GREEDY).tokens) == 10
    assert "was lost" in str(other.probe(GPU).attempts[0].reason)


def test_without_a_spare_the_loss_is_what_requests_fail_with(engine: Engine) -> None:
    path = engine.inspect("tiny").weights_path
    decoder = load_on(CudaBackend(device := EmulatedDevice()), open_gguf(path))
    with pytest.raises(DeviceLost, match=f"the {GPU} device was lost: gone"):
        Standby(decoder, GPU, lost=LostDevices()).replace(DeviceLost("cuda", "gone"))
    assert device.held_nbytes == 0


def test_a_spare_that_is_lost_too_is_not_loaded_again(engine: Engine) -> None:
    path = engine.inspect("tiny").weights_path

    def load(check: Check = nothing_against) -> Spare:
        return Spare(load_on(CudaBackend(EmulatedDevice()), open_gguf(path)))

    standby = Standby(load().decoder, GPU, load_spare=load, lost=LostDevices())
    standby.replace(DeviceLost("cuda", "gone"))
    with pytest.raises(DeviceLost):
        standby.replace(DeviceLost("cuda", "gone"))


def test_a_model_that_no_device_takes_is_on_the_cpu_only_where_it_may_be(engine: Engine) -> None:
    manifest, loader = engine.inspect("tiny"), SessionLoader()
    with pytest.raises(BackendUnavailable):
        loader.load(manifest, "cuda:99")
    session = loader.load(manifest, "cuda:99", may_fall_back=True)
    assert (session.device, "cuda backend is unavailable" in str(session.fallback)) == ("cpu", True)
    session.retire()
