"""Damaged files: each opens or gives a named error, soon and in little memory, and the process lives."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import EngineError
from rase_models.architectures import build_program
from rase_models.gguf import open_gguf
from rase_models.tokenizers import tokenizer_from_gguf


def opens_or_is_refused(path: Path) -> bool:
    try:
        file = open_gguf(path)
        for weight in file.weights():
            assert weight.data.nbytes == weight.info.nbytes
    except EngineError as error:
        assert error.message
        assert error.advice
        return False
    return True


def header_bytes(path: Path) -> int:
    return min(tensor.offset for tensor in open_gguf(path).tensors.values())


@pytest.fixture(scope="module")
def small_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("small") / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "a", "é"])
    writer.add_array("tokenizer.ggml.scores", [0.0, 1.0, 2.0])
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    writer.add_tensor("a", np.zeros((2, 32), np.float32))
    writer.add_tensor("b", np.zeros((2, 34), np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


@pytest.fixture
def real_header(smollm2_path: Path, tmp_path: Path) -> Path:
    """The real model with all its metadata, its weights a hole in the file."""
    path = tmp_path / "real.gguf"
    with smollm2_path.open("rb") as source, path.open("wb") as target:
        target.write(source.read(header_bytes(smollm2_path)))
        target.truncate(smollm2_path.stat().st_size)
    return path


def test_a_small_file_cut_anywhere_is_refused(small_file: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    padding = 32  # after the last tensor, which nobody misses
    for length in range(len(small_file) - padding):
        path.write_bytes(small_file[:length])
        assert not opens_or_is_refused(path), length


@pytest.mark.parametrize(
    "bits", [(0, 7), pytest.param(tuple(range(8)), marks=pytest.mark.slow)], ids=["two", "all"]
)
def test_bits_of_every_byte_of_a_small_header_may_flip(
    small_file: bytes, tmp_path: Path, bits: tuple[int, ...]
) -> None:
    path = tmp_path / "flip.gguf"
    path.write_bytes(small_file)
    with path.open("r+b") as file:
        for offset in range(header_bytes(path)):
            for bit in bits:
                change_and_open(file, offset, 1 << bit, lambda: opens_or_is_refused(path))


@settings(max_examples=200, deadline=None)
@given(
    data=st.binary(max_size=200),
    start=st.sampled_from([b"", b"GGUF\3\0\0\0", b"GGUF\2\0\0\0\1\0\0\0\0\0\0\0"]),
)
def test_any_bytes_open_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.gguf"
    path.write_bytes(start + data)
    opens_or_is_refused(path)


@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_the_real_model_cut_at_random_points_is_refused(real_header: Path, count: int) -> None:
    rng, path = random.Random(1), real_header
    header, size = header_bytes(path), path.stat().st_size
    cuts = [rng.randrange(header) for _ in range(count)] + [rng.randrange(header, size) for _ in range(count)]
    for length in sorted(cuts, reverse=True):
        with path.open("r+b") as file:
            file.truncate(length)
        with pytest.raises(EngineError):
            open_gguf(path)


@pytest.mark.parametrize("count", [15, pytest.param(700, marks=pytest.mark.slow)])
def test_the_real_header_with_one_byte_changed_opens_or_is_refused(real_header: Path, count: int) -> None:
    rng = random.Random(2)
    header = header_bytes(real_header)
    places = [0] * count + [header - 17_000] * count + [rng.randrange(header) for _ in range(count)]
    with real_header.open("r+b") as file:
        for start in places:
            offset = min(start + rng.randrange(2048), header - 1)
            change_and_open(file, offset, rng.randrange(1, 256), lambda: open_gguf(real_header))


def test_a_model_with_one_byte_changed_is_built_or_refused(tiny_path: Path, tmp_path: Path) -> None:
    rng, path = random.Random(3), tmp_path / "tiny.gguf"
    path.write_bytes(tiny_path.read_bytes())
    header = header_bytes(path)

    def build() -> None:
        file = open_gguf(path)
        build_program(file)
        tokenizer_from_gguf(file).encode("Hello")

    with path.open("r+b") as file:
        for _ in range(2000):
            change_and_open(file, rng.randrange(header), rng.randrange(1, 256), build)


def change_and_open(file: BinaryIO, offset: int, change: int, use: Callable[[], object]) -> None:
    file.seek(offset)
    original = file.read(1)
    write_at(file, offset, bytes([original[0] ^ change]))
    try:
        use()
    except EngineError as error:
        assert error.message
    finally:
        write_at(file, offset, original)


def write_at(file: BinaryIO, offset: int, data: bytes) -> None:
    file.seek(offset)
    file.write(data)
    file.flush()
