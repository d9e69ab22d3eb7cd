"""Damaged models all the way to an answer: each runs or is refused by name, soon, and the engine lives."""

import random
from pathlib import Path

import pytest
from rase_core.errors import EngineError
from rase_core.sampling import GenerationConfig
from rase_models import Engine
from rase_models.gguf import open_gguf

CONFIG = GenerationConfig(max_tokens=3, ignore_eos=True)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path / "store", "reference")


def runs(engine: Engine, path: Path) -> bool:
    try:
        engine.generate_file(path, None, "Hello <|im_end|>", CONFIG)
    except EngineError as error:
        assert error.message
        return False
    return True


def changed(data: bytes, offset: int, rng: random.Random) -> bytes:
    return data[:offset] + bytes([data[offset] ^ rng.randrange(1, 256)]) + data[offset + 1 :]


@pytest.mark.parametrize("part", ["metadata", "vocabulary", "tensor table"])
def test_a_model_with_one_byte_of_its_header_changed_runs_or_is_refused(
    engine: Engine, tiny_path: Path, tmp_path: Path, part: str
) -> None:
    data, rng, path = tiny_path.read_bytes(), random.Random(part), tmp_path / "damaged.gguf"
    vocabulary, settings = data.index(b"tokenizer.ggml.tokens"), data.index(b"tokenizer.ggml.token_type")
    table = data.index(b"token_embd.weight")
    header = min(tensor.offset for tensor in open_gguf(tiny_path).tensors.values())
    offsets = {
        "metadata": [*range(vocabulary), *range(settings, table)],
        "vocabulary": range(vocabulary, settings),
        "tensor table": range(table, header),
    }
    outcomes = []
    for _ in range(70):
        path.write_bytes(changed(data, rng.choice(offsets[part]), rng))
        outcomes.append(runs(engine, path))
    assert not all(outcomes)


def test_damaged_weights_run_or_are_refused(engine: Engine, tiny_path: Path, tmp_path: Path) -> None:
    data, rng, path = tiny_path.read_bytes(), random.Random(5), tmp_path / "damaged.gguf"
    start = min(tensor.offset for tensor in open_gguf(tiny_path).tensors.values())
    for _ in range(20):
        path.write_bytes(changed(data, rng.randrange(start, len(data)), rng))
        runs(engine, path)
    path.write_bytes(data[:start] + b"\xff" * (len(data) - start))  # every weight is NaN
    assert not runs(engine, path)


def test_a_model_cut_anywhere_is_refused(engine: Engine, tiny_path: Path, tmp_path: Path) -> None:
    data, rng, path = tiny_path.read_bytes(), random.Random(6), tmp_path / "cut.gguf"
    last = max(open_gguf(tiny_path).tensors.values(), key=lambda tensor: tensor.offset)
    for _ in range(50):
        path.write_bytes(data[: rng.randrange(last.offset + last.nbytes)])
        assert not runs(engine, path)
