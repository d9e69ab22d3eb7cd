"""Opening a model and reading its bytes, with files written by the gguf package."""

import hashlib
import os
from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray
from rase_core.errors import EngineError, InvalidGguf, ModelFileNotFound, UnsupportedFormat
from rase_models.gguf import GgmlType, GgufFile, open_gguf
from rase_models.gguf.file import PIECE

TENSORS: dict[str, NDArray[np.floating]] = {
    "token_embd.weight": np.arange(96, dtype=np.float32).reshape(3, 32),
    "blk.0.attn_norm.weight": np.ones(5, dtype=np.float32),
    "output.weight": np.arange(6, dtype=np.float16).reshape(2, 3),
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small file with metadata of every kind, in a folder with letters beyond ASCII in its name."""
    path = tmp_path / "Größe 模型" / "tiny model.gguf"
    path.parent.mkdir()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 2)
    writer.add_float32("llama.rope.freq_base", 10000.0)
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    writer.add_array("tokenizer.ggml.tokens", ["a", "é", "模"])
    writer.add_array("tokenizer.ggml.scores", [0.5, -1.0])
    writer.add_array("tokenizer.ggml.token_type", [1, 3])
    writer.add_array("layers", [True, False])
    for name, values in TENSORS.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_metadata_is_what_the_writer_wrote(model: Path) -> None:
    file = open_gguf(model)
    assert file.architecture == "llama"
    assert file.integer("llama.block_count") == 2
    assert file.number("llama.rope.freq_base") == 10000.0
    assert file.number("llama.block_count") == 2.0
    assert file.boolean("tokenizer.ggml.add_bos_token") is True
    assert file.strings("tokenizer.ggml.tokens") == ("a", "é", "模")
    assert file.numbers("tokenizer.ggml.scores") == (0.5, -1.0)
    assert file.numbers("tokenizer.ggml.token_type") == (1.0, 3.0)
    assert file.integers("tokenizer.ggml.token_type") == (1, 3)
    assert file.booleans("layers") == (True, False)


def test_a_missing_key_takes_the_default(model: Path) -> None:
    file = open_gguf(model)
    assert file.integer("llama.expert_count", 0) == 0
    assert file.string("tokenizer.chat_template", None) is None


def test_a_missing_key_without_default_is_named(model: Path) -> None:
    with pytest.raises(InvalidGguf, match="expected an integer, but the key is missing"):
        open_gguf(model).integer("llama.context_length")


WRONG = [
    ("integer", "llama.rope.freq_base", "expected an integer, found the float 10000.0"),
    ("integer", "tokenizer.ggml.add_bos_token", "expected an integer, found the bool True"),
    ("number", "general.architecture", "expected a number, found the str 'llama'"),
    ("boolean", "llama.block_count", "expected a bool, found the int 2"),
    ("string", "llama.block_count", "expected a UTF-8 string, found the int 2"),
    ("strings", "general.architecture", "expected an array of strings, found the str 'llama'"),
    ("integers", "tokenizer.ggml.scores", "expected an array of integers, found an array of 2 float32"),
    ("numbers", "tokenizer.ggml.tokens", "expected an array of numbers, found an array of 3 strings"),
    ("booleans", "tokenizer.ggml.scores", "expected an array of bools, found an array of 2 float32"),
]


@pytest.mark.parametrize(("getter", "key", "what"), WRONG)
def test_a_value_of_another_type_is_named(model: Path, getter: str, key: str, what: str) -> None:
    with pytest.raises(InvalidGguf) as caught:
        getattr(open_gguf(model), getter)(key)
    assert caught.value.what == f"metadata {key!r}: {what}"


def test_a_string_that_is_not_utf8_is_refused_where_text_is_needed(model: Path) -> None:
    data = model.read_bytes()
    model.write_bytes(data.replace(b"llama", b"lla\xffa", 1))
    file = open_gguf(model)
    assert file.metadata["general.architecture"] == "lla\udcffa"
    with pytest.raises(InvalidGguf, match="expected a UTF-8 string"):
        _ = file.architecture


def test_a_tensor_is_read_by_name(model: Path) -> None:
    file = open_gguf(model)
    for name, values in TENSORS.items():
        assert file.tensors[name].shape == values.shape
        np.testing.assert_array_equal(file.read(name).view(values.dtype).reshape(values.shape), values)
    assert file.tensors["output.weight"].type is GgmlType.F16


def test_a_tensor_that_is_not_there_is_named(model: Path) -> None:
    with pytest.raises(InvalidGguf, match=r"'rope_freqs.weight' is missing"):
        open_gguf(model).read("rope_freqs.weight")


def seen_bytes(file: GgufFile) -> tuple[list[str], bytes]:
    seen = bytearray()
    names = [weight.info.name for weight in file.weights(lambda part, data: seen.extend(data))]
    return names, bytes(seen)


def test_weights_come_in_file_order_while_every_byte_is_seen(model: Path) -> None:
    names, seen = seen_bytes(open_gguf(model))
    assert names == list(TENSORS)
    assert seen == model.read_bytes()


def test_bytes_after_the_last_tensor_are_seen(model: Path) -> None:
    with model.open("ab") as file:
        file.write(b"trailer")
    assert seen_bytes(open_gguf(model))[1] == model.read_bytes()


def test_weights_can_be_read_without_watching_the_bytes(model: Path) -> None:
    weights = {weight.info.name: weight.data for weight in open_gguf(model).weights()}
    assert weights["output.weight"].tobytes() == TENSORS["output.weight"].tobytes()
    assert all(data.flags.writeable and data.base is None for data in weights.values())


def test_a_large_tensor_is_seen_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("a", np.zeros(PIECE + 5, dtype=np.int8))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    pieces: list[int] = []
    assert len(list(open_gguf(path).weights(lambda part, data: pieces.append(len(data))))) == 1
    assert max(pieces) == PIECE
    assert sum(pieces) == path.stat().st_size


def test_a_file_that_shrank_after_it_was_opened_is_an_error(model: Path) -> None:
    file = open_gguf(model)
    os.truncate(model, file.sizes[0] - 40)
    with pytest.raises(InvalidGguf, match=f"had {file.sizes[0]} bytes when it was opened"):
        list(file.weights())
    with pytest.raises(InvalidGguf, match="became shorter"):
        file.read("output.weight")


def test_a_file_that_shrinks_while_it_is_read_is_an_error(model: Path) -> None:
    weights = open_gguf(model).weights()
    next(weights)
    os.truncate(model, 100)
    with pytest.raises(InvalidGguf):
        list(weights)


def test_a_file_that_vanished_after_it_was_opened_is_named(model: Path) -> None:
    file = open_gguf(model)
    model.unlink()
    with pytest.raises(ModelFileNotFound):
        list(file.weights())


OTHER_CONTENTS = [
    (b"", "an empty file"),
    (b"<!DOCTYPE html><html><body>404</body></html>", "an HTML page"),
    (b"\n <HTML>\n", "an HTML page"),
    (b"Hello, this is not a model\nat all", "text that begins with 'Hello, this is not a model'"),
    (("x" * 39 + "ß").encode(), f"text that begins with '{'x' * 39}'"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a Git LFS pointer, not the file"),
    (b"PK\x03\x04" + bytes(60), "a ZIP archive"),
    (b"\x80\x02}q\x00", "a pickle"),
    (b"\x1f\x8b\x08", "a gzip archive"),
    (b"FUGG" + bytes(20), "a GGUF with its bytes swapped"),
    (b"lmgg" + bytes(20), "a GGML file from before GGUF"),
    (b"\x40\0\0\0\0\0\0\0" + b'{"__metadata__":{}}', "a safetensors file"),
    (b'{"error": "Entry not found"}', "a JSON file"),
    (b"\0\1\2\3\xff", "data that begins with the bytes 00 01 02 03 ff"),
]


@pytest.mark.parametrize(("data", "found"), OTHER_CONTENTS)
def test_a_file_that_is_no_gguf_is_told_for_what_it_is(tmp_path: Path, data: bytes, found: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(UnsupportedFormat) as caught:
        open_gguf(path)
    assert found in caught.value.found


def test_a_path_that_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileNotFound, match="is a folder"):
        open_gguf(tmp_path)
    with pytest.raises(ModelFileNotFound, match="No such file"):
        open_gguf(tmp_path / "absent.gguf")
    with pytest.raises(ModelFileNotFound, match="null"):
        open_gguf("a\0b.gguf")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ModelFileNotFound, match="not a regular file"):
        open_gguf(tmp_path / "pipe.gguf")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_named(model: Path) -> None:
    model.chmod(0)
    with pytest.raises(ModelFileNotFound, match="may not be read"):
        open_gguf(model)


def test_errors_of_a_model_file_are_engine_errors(tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        open_gguf(tmp_path)


def test_the_real_model_s_bytes_hash_as_the_file_does(smollm2_path: Path) -> None:
    file = open_gguf(smollm2_path)
    digest = hashlib.sha256()
    count = sum(1 for _ in file.weights(lambda part, data: digest.update(data)))
    assert count == len(file.tensors) == 272
    assert digest.hexdigest() == hashlib.sha256(smollm2_path.read_bytes()).hexdigest()


def test_the_real_model_s_header_agrees_with_the_gguf_package(smollm2_path: Path) -> None:
    ours, theirs = open_gguf(smollm2_path), gguf.GGUFReader(smollm2_path)
    for tensor in theirs.tensors:
        found = ours.tensors[tensor.name]
        assert (found.offset, found.nbytes) == (tensor.data_offset, tensor.n_bytes)
        assert found.type.value == tensor.tensor_type.value
        assert list(found.shape) == tensor.shape.tolist()[::-1]
    for key, field in theirs.fields.items():
        if not key.startswith("GGUF."):
            value = ours.metadata[key]
            assert (value.tolist() if isinstance(value, np.ndarray) else value) in (
                field.contents(),
                tuple(field.contents()) if isinstance(field.contents(), list) else None,
            )


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that cannot be read")
def test_a_disk_that_does_not_answer_is_named(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFileNotFound, match=r"/proc/self/mem: Input/output error"):
        open_gguf("/proc/self/mem")
    file = open_gguf(model)
    model.unlink()
    model.symlink_to("/proc/self/mem")
    with pytest.raises(EngineError):
        list(file.weights())
    with pytest.raises(ModelFileNotFound, match="Input/output error"):
        file.read("output.weight")
