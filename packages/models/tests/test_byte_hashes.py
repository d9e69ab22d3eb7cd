"""Hashing in a thread of its own."""

import hashlib
import threading

import pytest
from rase_models.byte_hashes import ByteHashes


def test_files_are_hashed_apart_and_in_order() -> None:
    pieces = [(0, b"one"), (1, b"other"), (0, b"two"), (0, b"three")]
    with ByteHashes(3) as hashes:
        for part, data in pieces * 10:
            hashes.see(part, memoryview(data))
    expected = [b"onetwothree", b"other", b""]
    joined = [b"".join(data for part, data in pieces * 10 if part == i) for i in range(3)]
    assert joined[1:] == [expected[1] * 10, b""]
    assert hashes.digests() == tuple(hashlib.sha256(data).hexdigest() for data in joined)


def test_an_error_while_reading_ends_the_thread() -> None:
    hashes = ByteHashes(1)
    with pytest.raises(RuntimeError), hashes:
        hashes.see(0, memoryview(b"data"))
        raise RuntimeError
    assert "rase-hash" not in [thread.name for thread in threading.enumerate()]
