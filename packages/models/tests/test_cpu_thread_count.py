"""How many threads a runner uses."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import BackendFailure
from rase_models.backends.base import ThreadCounts
from rase_models.backends.cpu.cores import usable_cores
from rase_models.backends.cpu.thread_count import (
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
    monkeypatch.setattr("rase_models.backends.cpu.thread_count.usable_cores", lambda: 16)
    monkeypatch.setattr("rase_models.backends.cpu.thread_count.cpu_quota", lambda: None)
    assert thread_counts() == (12, 16)


@pytest.mark.parametrize("text", ["two", "1.5", "0", "-1", "1000000", "9" * 5000])
def test_a_number_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RASE_NUM_THREADS", text)
    with pytest.raises(BackendFailure, match=r"must be a whole number from 1 to \d+, not"):
        thread_counts()


def test_far_more_threads_than_processors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "rase_models.backends.cpu.thread_count"
    monkeypatch.setattr(f"{module}.usable_processors", lambda: range(2))
    assert most_threads() == 16
    monkeypatch.setattr(f"{module}.usable_processors", lambda: range(32))
    assert most_threads() == 128
    assert thread_counts(128) == (128, 128)
    for counts in (ThreadCounts(129), ThreadCounts(1, 129)):
        with pytest.raises(BackendFailure, match="from 1 to 128, not '129'"):
            thread_counts(counts)


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
