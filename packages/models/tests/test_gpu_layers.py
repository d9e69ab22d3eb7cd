"""How many layers are on a GPU: none, all, or a refusal that says what to do."""

from pathlib import Path

import pytest
from rase_core.errors import BackendUnavailable, InvalidParameter
from rase_core.sampling import GenerationConfig
from rase_models import Engine
from rase_models.gguf import open_gguf
from rase_models.gpu_layers import check_gpu_layers, device_for, layers_of
from rase_models.session_loader import SessionLoader
from rase_models.testing import write_tiny_model


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "metal"])
def test_all_layers_or_none_named_are_on_a_gpu(device: str) -> None:
    for count in (None, -1, 12, 999):
        check_gpu_layers(count, 12, device)
    with pytest.raises(InvalidParameter, match=f"on the device {device}"):
        check_gpu_layers(0, 12, device)


def test_no_layers_are_on_a_gpu_where_there_is_none() -> None:
    for count in (None, 0):
        check_gpu_layers(count, 12, "cpu")
    for count in (-1, 12, 999):
        with pytest.raises(InvalidParameter, match="on the device cpu, no GPU"):
            check_gpu_layers(count, 12, "cpu")


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("count", [1, 11])
def test_a_part_of_the_layers_is_refused_with_what_may_help(device: str, count: int) -> None:
    with pytest.raises(InvalidParameter, match=r"all of the 12 layers.*not split") as caught:
        check_gpu_layers(count, 12, device, "options.num_gpu")
    assert caught.value.parameter == "options.num_gpu"
    assert "smaller quantisation" in caught.value.expected


def test_no_layers_mean_the_cpu_and_less_than_none_means_nothing() -> None:
    assert [device_for("cuda", count) for count in (None, -1, 5, 0)] == ["cuda", "cuda", "cuda", "cpu"]
    assert [device_for(name, 0) for name in ("auto", " CUDA:1", "metal")] == ["cpu", "cpu", "cpu"]
    assert device_for("reference", 0) == "reference"
    with pytest.raises(InvalidParameter, match="-1 for all"):
        device_for("auto", -2)
    with pytest.raises(BackendUnavailable, match="no such device"):
        device_for("tpu", 0)


def test_an_engine_with_no_layers_on_a_gpu_computes_on_the_cpu(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")
    with Engine(tmp_path / "store", "cuda", gpu_layers=0) as engine:
        engine.import_model(path, "tiny")
        assert engine.device == "cpu"
        config = GenerationConfig(max_tokens=2, ignore_eos=True)
        assert len(engine.generate("tiny", "Hello", config).tokens) == 2
        assert engine.load("tiny").layers == layers_of(open_gguf(path)) > 0


def test_a_model_is_refused_whose_layers_are_not_where_they_are_asked_for(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf")
    with Engine(tmp_path / "store", "reference", gpu_layers=-1) as engine:
        manifest = engine.import_model(path, "tiny")
        with pytest.raises(InvalidParameter, match="no GPU"):
            engine.load("tiny")
        with pytest.raises(InvalidParameter, match="no GPU"):
            engine.generate_file(path, None, "Hello")
    loader = SessionLoader(gpu_layers=-1)
    with pytest.raises(BackendUnavailable):  # it was to be on a GPU, and nowhere else
        loader.load(manifest, "cuda:99", may_fall_back=True)
