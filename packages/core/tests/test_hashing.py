import hashlib
import os
from pathlib import Path

import pytest
from rase_core.errors import Cancelled, ModelFileNotFound
from rase_core.hashing import hash_file
from rase_core.progress import ProgressEvent, ProgressPhase


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (3 << 20) + 17])
def test_it_is_the_sha256_of_the_file_with_progress_up_to_its_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "datei mit ü.bin"
    path.write_bytes(os.urandom(size))
    events: list[ProgressEvent] = []
    assert hash_file(path, events.append) == (hashlib.sha256(path.read_bytes()).hexdigest(), size)
    assert [event.done for event in events] == [*range(1 << 20, size, 1 << 20), *([size] if size else [])]
    assert all((e.phase, e.file, e.total) == (ProgressPhase.HASH, path.name, size) for e in events)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileNotFound, match="No such file"):
        hash_file(tmp_path / "missing")


@pytest.mark.parametrize("error", [Cancelled(), BrokenPipeError(32, "Broken pipe")], ids=repr)
def test_what_progress_raises_ends_the_work_as_it_is(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x" * (2 << 20))

    def give_up(event: ProgressEvent) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        hash_file(path, give_up)
    assert caught.value is error
