"""How many threads a runner uses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import BackendFailure
from rase_models.backends.base import ThreadCounts
from rase_models.backends.cpu.cores import usable_cores, usable_processors
from rase_models.backends.cpu.thread_count import (
    Machine,
    cpu_quota,
    default_thread_count,
    most_threads,
    thread_counts,
)


def test_the_argument_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RASE_NUM_THREADS", "3")
    assert thread_counts(2) == (2, 2)
    assert thread_counts() == (3, 3)


def test_the_machine_decides_when_nobody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RASE_NUM_THREADS", raising=False)
    decode, prefill = thread_counts()
    assert 1 <= decode <= prefill <= usable_cores()


def test_prompts_may_have_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RASE_NUM_THREADS", "3")
    assert thread_counts(ThreadCounts(prefill=5)) == (3, 5)
    assert thread_counts(ThreadCounts(decode=2)) == (2, 2)
    assert thread_counts(ThreadCounts(2, 1)) == (2, 1)


def test_a_number_of_threads_for_prompts_is_checked() -> None:
    with pytest.raises(BackendFailure, match="not '0'"):
        thread_counts(ThreadCounts(2, 0))


def test_prompts_have_all_cores_of_a_large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RASE_NUM_THREADS", raising=False)
    assert thread_counts(machine=Machine(16, 32)) == (12, 16)
    assert thread_counts(machine=Machine(16, 32, quota=6.5)) == (6, 6)
    assert thread_counts(ThreadCounts(prefill=3), Machine(16, 32)) == (12, 3)


COUNTS = """
import os, sys
os.sched_setaffinity(0, {int(processor) for processor in sys.argv[1:]})
from rase_models.backends.cpu.thread_count import thread_counts
print(*thread_counts())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs the affinity of a process")
@pytest.mark.parametrize("named", [None, "", "3"])
def test_a_process_bound_to_a_core_has_a_thread_unless_it_is_told_otherwise(
    named: str | None,
) -> None:
    own = {name: value for name, value in os.environ.items() if name != "RASE_NUM_THREADS"}
    told = {} if named is None else {"RASE_NUM_THREADS": named}
    command = [sys.executable, "-c", COUNTS, str(min(usable_processors()))]
    ran = subprocess.run(command, env=own | told, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ([named, named] if named else ["1", "1"])


@pytest.mark.parametrize("text", ["two", "1.5", "0", "-1", "1000000", "9" * 5000])
def test_a_number_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RASE_NUM_THREADS", text)
    with pytest.raises(BackendFailure, match=r"must be a whole number from 1 to \d+, not"):
        thread_counts()


def test_far_more_threads_than_processors_are_refused() -> None:
    assert (Machine(2, 2).most_threads, Machine(16, 32).most_threads) == (16, 128)
    assert most_threads() == Machine.here().most_threads
    assert thread_counts(128, Machine(16, 32)) == (128, 128)
    for counts in (ThreadCounts(129), ThreadCounts(1, 129)):
        with pytest.raises(BackendFailure, match="from 1 to 128, not '129'"):
            thread_counts(counts, Machine(16, 32))


@pytest.mark.parametrize(
    ("cores", "quota", "expected"),
    [(1, None, 1), (8, None, 8), (11, None, 11), (12, None, 8), (64, None, 60), (8, 2.5, 2), (8, 0.5, 1)],
)
def test_large_machines_keep_some_cores_free(cores: int, quota: float | None, expected: int) -> None:
    assert default_thread_count(cores, quota) == expected


@given(st.integers(1, 500), st.none() | st.floats(0.01, 500))
def test_there_is_always_a_thread_and_never_more_than_cores(cores: int, quota: float | None) -> None:
    assert 1 <= default_thread_count(cores, quota) <= cores


def make_group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_the_tightest_limit_of_the_control_groups_counts(tmp_path: Path) -> None:
    root, membership = tmp_path / "cgroup", tmp_path / "self"
    membership.write_text("0::/outer/inner\n")
    make_group(root / "outer", cpu__max="150000 100000\n")
    make_group(root / "outer" / "inner", cpu__max="max 100000\n")
    assert cpu_quota(root, membership) == 1.5


def test_limits_of_version_1_count_too(tmp_path: Path) -> None:
    root, membership = tmp_path / "cgroup", tmp_path / "self"
    membership.write_text("2:cpu,cpuacct:/box\n1:memory:/box\n")
    make_group(root / "cpu", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    make_group(root / "cpu" / "box", cpu__cfs_quota_us="300000", cpu__cfs_period_us="100000")
    assert cpu_quota(root, membership) == 3.0


def test_no_control_group_is_no_limit(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path, tmp_path / "none") is None
