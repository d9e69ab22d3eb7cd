import os
from pathlib import Path

import pytest
from rase_core.errors import ModelFileNotFound, UnsupportedFormat
from rase_core.manifest import ModelFormat
from rase_core.weights import regular_file, split_parts, weights_files, weights_format


def test_a_path_becomes_absolute_and_links_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert regular_file(Path("sub/../link")) == tmp_path / "link"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "No such file"),
        ("folder", "is a folder"),
        ("pipe", "is not a regular"),
        ("x" * 400, "too long"),
    ],
)
def test_what_is_no_file_says_why(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileNotFound, match=reason):
        regular_file(tmp_path / name)


def test_a_path_with_a_null_byte_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFileNotFound, match="null byte"):
        regular_file(tmp_path / "a\0b")


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
        ("a.gguf", b"", "it is empty"),
        ("a.gguf", b"<!doctype html>", "it starts with b'<!doctype html>'"),
        ("a.gguf", b"hello", "it starts with"),
        ("a.safetensors", b"PK\3\4", "it starts with"),
    ],
)
def test_a_file_of_another_format_says_what_it_starts_with(
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
