"""Models that are split into several files."""

import hashlib
from pathlib import Path

import gguf
import numpy as np
import pytest
from rase_core.errors import InvalidGguf, ModelFileNotFound
from rase_models.gguf import open_gguf
from rase_models.gguf.parts import split_paths

VALUES = {f"blk.{layer}.attn_norm.weight": np.full(40, layer, np.float32) for layer in range(5)}


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Three parts with two tensors each but the last, as the gguf package splits them."""
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama", split_max_tensors=2)
    for name, values in VALUES.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(tmp_path.glob("*.gguf"))


def test_all_parts_are_found_from_any_of_them(parts: list[Path]) -> None:
    for path in parts:
        file = open_gguf(path)
        assert file.path == path
        assert file.parts == tuple(parts)
        assert file.architecture == "llama"
        assert list(file.tensors) == list(VALUES)


def test_tensors_are_read_from_their_part(parts: list[Path]) -> None:
    file = open_gguf(parts[0])
    assert [tensor.part for tensor in file.tensors.values()] == [0, 0, 1, 1, 2]
    for name, values in VALUES.items():
        np.testing.assert_array_equal(file.read(name).view(np.float32), values)


def test_one_pass_sees_every_byte_of_every_part_in_order(parts: list[Path]) -> None:
    file = open_gguf(parts[0])
    hashes = [hashlib.sha256() for _ in parts]
    order: list[int] = []

    def see(part: int, data: memoryview) -> None:
        hashes[part].update(data)
        order.append(part)

    assert [weight.info.name for weight in file.weights(see)] == list(VALUES)
    assert order == sorted(order)
    assert [h.hexdigest() for h in hashes] == [hashlib.sha256(p.read_bytes()).hexdigest() for p in parts]


def test_a_missing_part_is_named(parts: list[Path]) -> None:
    parts[1].unlink()
    with pytest.raises(ModelFileNotFound, match="part 2 of 3 of a split model is missing") as caught:
        open_gguf(parts[0])
    assert caught.value.path == parts[1]


def test_a_part_in_the_place_of_another_is_named(parts: list[Path]) -> None:
    parts[2].write_bytes(parts[1].read_bytes())
    with pytest.raises(InvalidGguf, match=r"'split.no': expected 2, found 1") as caught:
        open_gguf(parts[0])
    assert caught.value.path == parts[2]


def test_a_part_whose_name_lost_its_number_is_an_error(parts: list[Path]) -> None:
    lone = parts[0].rename(parts[0].with_name("lone.gguf"))
    with pytest.raises(InvalidGguf, match="the model has 3 parts, its file name says 1"):
        open_gguf(lone)


def test_parts_of_two_models_do_not_mix(parts: list[Path]) -> None:
    data = parts[1].read_bytes()
    parts[1].write_bytes(data.replace(b"blk.2.", b"blk.0."))
    with pytest.raises(InvalidGguf, match=r"'blk.0.attn_norm.weight' is in an earlier part too"):
        open_gguf(parts[0])


def test_a_wrong_number_of_tensors_is_an_error(parts: list[Path]) -> None:
    data = parts[0].read_bytes()
    at = data.index(b"split.tensors.count") + len("split.tensors.count") + 4
    parts[0].write_bytes(data[:at] + (9).to_bytes(4, "little") + data[at + 4 :])
    with pytest.raises(InvalidGguf, match=r"'split.tensors.count' is 9, found 5"):
        open_gguf(parts[0])


def test_a_file_name_like_a_part_s_may_be_a_whole_model(parts: list[Path], tmp_path: Path) -> None:
    assert split_paths(tmp_path / "m-00003-of-00002.gguf") == (tmp_path / "m-00003-of-00002.gguf",)
    assert split_paths(tmp_path / "m.gguf") == (tmp_path / "m.gguf",)
    assert len(split_paths(tmp_path / "m-00001-of-00012.gguf")) == 12
