"""Hashes that are computed once."""

import hashlib
import os
from pathlib import Path

import pytest
from rase_core.errors import ModelFileNotFound
from rase_core.progress import ProgressEvent
from rase_models.file_digests import FileDigests


def test_a_file_is_hashed_again_only_when_it_has_changed(tmp_path: Path) -> None:
    path, digests = tmp_path / "file", FileDigests()
    events: list[ProgressEvent] = []
    for content, stamp, times in ((b"one", 1, 1), (b"one", 1, 1), (b"two", 2, 2), (b"three", 2, 3)):
        path.write_bytes(content)
        os.utime(path, ns=(stamp, stamp))
        assert digests.digest(path, events.append) == hashlib.sha256(content).hexdigest()
        assert len(events) == times


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    path, digests = tmp_path / "file", FileDigests()
    path.write_bytes(b"one")
    digests.digest(path)
    path.unlink()
    with pytest.raises(ModelFileNotFound):
        digests.digest(path)
