"""The cores of the machine."""

import os
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_models.backends.cpu.cores import cores_in, usable_cores, usable_processors


def core(*processors: int, relation: int = 0) -> bytes:
    """A record of Windows for one core, with processors of one group."""
    mask = sum(1 << processor for processor in processors)
    body = struct.pack("<BB20xH", len(processors) > 1, 0, 1) + struct.pack("<QH6x", mask, 0)
    return struct.pack("<II", relation, 8 + len(body)) + body


def test_there_are_no_more_cores_than_processors() -> None:
    assert 1 <= usable_cores() <= len(usable_processors()) <= (os.cpu_count() or 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a limited set of processors to set")
def test_processors_that_are_taken_away_do_not_count() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert (usable_cores(), usable_processors()) == (1, {min(before)})
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.skipif(sys.platform != "linux", reason="this file is Linux's")
def test_processors_that_share_a_core_are_one() -> None:
    lists = {
        Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list").read_text()
        for number in usable_processors()
    }
    assert usable_cores() == len(lists)


def test_a_core_of_windows_is_a_record() -> None:
    four = core(0, 1) + core(2, 3) + core(4) + core(5)
    assert cores_in(four, 0) == cores_in(four, 0b111111) == 4
    assert cores_in(four, 0b10) == 1
    assert cores_in(four, 0b11100) == 2
    assert cores_in(four + core(6, relation=3), 0) == 4


@given(st.binary(max_size=200), st.integers(0, 2**64 - 1))
def test_any_records_are_counted(records: bytes, allowed: int) -> None:
    assert 0 <= cores_in(records, allowed) <= len(records) // 8
