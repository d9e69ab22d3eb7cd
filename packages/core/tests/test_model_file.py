import os
from pathlib import Path

import pytest
from rase_core.errors import ModelFileNotFound
from rase_core.model_file import open_file, regular_file


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
    for use in (regular_file, open_file):
        with pytest.raises(ModelFileNotFound, match=reason):
            use(tmp_path / name)


def test_a_path_with_a_null_byte_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFileNotFound, match="null byte"):
        regular_file(tmp_path / "a\0b")


def test_a_file_is_opened_for_reading(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with open_file(tmp_path / "file") as file:
        assert file.read() == b"x"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that cannot be read")
@pytest.mark.parametrize("size", [1, -1, 1 << 20])
def test_a_disk_that_does_not_answer_is_named(size: int) -> None:
    with (
        open_file(Path("/proc/self/mem")) as file,
        pytest.raises(ModelFileNotFound, match=r"/proc/self/mem: Input/output error"),
    ):
        file.read(size)
