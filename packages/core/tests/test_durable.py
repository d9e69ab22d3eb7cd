from pathlib import Path

import pytest
from rase_core.durable import remove_file, remove_leftovers, write_file


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    write_file(path, b"one")
    write_file(path, b"two")
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"two", [path])


def test_a_write_that_fails_leaves_the_old_content_and_no_leftover(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    write_file(path, b"one")
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # what a full disk does, to one process
    try:
        with pytest.raises(OSError):
            write_file(path, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"one", [path])


def test_a_target_that_cannot_be_replaced_leaves_no_leftover(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.mkdir()
    with pytest.raises(OSError):
        write_file(path, b"one")
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".a.toml.0123.tmp").write_bytes(b"half")
    (tmp_path / "a.toml").write_bytes(b"whole")
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]


def test_removing_what_is_not_there_is_fine(tmp_path: Path) -> None:
    remove_file(tmp_path / "missing")
