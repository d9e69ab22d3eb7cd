from pathlib import Path

import pytest
from rase_core.errors import ModelFileNotFound, UnsupportedFormat
from rase_core.manifest import ModelFormat
from rase_core.weights import split_parts, weights_files, weights_format


def test_the_parts_of_a_split_file_follow_from_one_name() -> None:
    parts = ("m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf")
    assert split_parts(parts[0]) == split_parts(parts[2]) == parts


@pytest.mark.parametrize(
    "name", ["m.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-00001-of-00002.bin"]
)
def test_other_names_stand_for_themselves(name: str) -> None:
    assert split_parts(name) == (name,)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    first = tmp_path / "m-00001-of-00002.gguf"
    first.write_bytes(b"GGUF")
    with pytest.raises(ModelFileNotFound, match="m-00002-of-00002"):
        weights_files(first)


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.gguf", b"", "an empty file"),
        ("a.gguf", b"<!doctype html>", "an HTML page"),
        ("a.gguf", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        ("a.gguf", b'{"error": "Repository not found"}', "a JSON file"),
        ("a.gguf", b"hello", "text that begins with 'hello'"),
        ("a.safetensors", b"PK\3\4", "a ZIP archive"),
    ],
)
def test_a_file_of_another_format_says_what_it_is(
    tmp_path: Path, name: str, content: bytes, found: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnsupportedFormat) as caught:
        weights_format(tmp_path / name)
    assert caught.value.found.startswith(found)


def test_formats_are_known_by_their_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"GGUF\3\0\0\0")
    (tmp_path / "a.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    assert weights_format(tmp_path / "a.bin") is ModelFormat.GGUF
    assert weights_format(tmp_path / "a.safetensors") is ModelFormat.SAFETENSORS
    with pytest.raises(ModelFileNotFound):
        weights_format(tmp_path / "missing")
