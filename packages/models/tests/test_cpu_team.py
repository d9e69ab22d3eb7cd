"""Threads that run op tables."""

import contextlib
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from rase_core.errors import BackendFailure
from rase_core.testing_waits import wait_for
from rase_models.backends.cpu import abi
from rase_models.backends.cpu.arena import Arena
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import kernel_library
from rase_models.backends.cpu.op_table import OpTable, Row, place_waits
from rase_models.backends.cpu.team import TEAM_KERNELS, Team

ADD = KernelKey("add_rows")


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("rase-cpu")]


def wait_until_gone() -> None:
    wait_for(lambda: not workers())


@pytest.fixture
def team() -> Iterator[Team]:
    library = kernel_library()
    library.require([*TEAM_KERNELS, ADD])
    made = Team(library, 3)
    yield made
    made.close()
    assert workers() == []


def test_workers_end_when_the_team_is_closed(team: Team) -> None:
    assert len(workers()) == 2
    team.close()
    assert workers() == []
    team.close()


def test_a_closed_team_neither_runs_nor_waits(team: Team) -> None:
    team.load_program(empty_table())
    team.close()
    for use in (team.run, team.settle):
        with pytest.raises(BackendFailure, match="closed"):
            use()


@pytest.mark.parametrize("limit", [0, 2])
def test_a_thread_that_cannot_start_is_a_named_error(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        if len(workers()) == limit:
            raise RuntimeError("can't start new thread")
        start(thread)

    kernel_library().require(TEAM_KERNELS)
    monkeypatch.setattr(threading.Thread, "start", scarce)
    with pytest.raises(BackendFailure, match=f"thread {limit + 2} of 5: can't start new thread") as caught:
        Team(kernel_library(), 5)
    assert caught.value.advice == "use fewer threads"
    assert workers() == []


def test_workers_that_sleep_in_python_wake_for_every_run() -> None:
    team = Team(kernel_library(), 3, futex=0)
    table = empty_table()
    team.load_program(table)
    for pause in (0, 0.002, 0.01, 0.05, 0):
        team.run()
        team.settle()
        time.sleep(pause)
    wait_for(lambda: team.words[abi.SLEEPERS // abi.WORD] >= 2)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.1
    team.run()
    assert team.words[abi.SLEEPERS_SEEN // abi.WORD] == 2
    team.settle()
    team.close()
    assert workers() == []


def test_workers_end_when_the_team_is_dropped() -> None:
    kernel_library().require(TEAM_KERNELS)
    for _ in range(20):
        Team(kernel_library(), 2)
    gc.collect()
    wait_until_gone()


def test_idle_workers_use_no_processor_time(team: Team) -> None:
    table = empty_table()
    team.load_program(table)
    team.run()
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def empty_table() -> OpTable:
    """Return a table of additions to no rows."""
    rows = [Row(ADD, {}) for _ in range(5)]
    place_waits(rows)
    return OpTable(rows, {ADD: kernel_library().address(ADD)}, Arena())


def test_workers_wake_for_every_run(team: Team) -> None:
    table = empty_table()
    team.load_program(table)
    for pause in (0, 0, 0.002, 0.01, 0):
        team.run()
        time.sleep(pause)
    team.settle()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told_to_load_again(team: Team) -> None:
    table = empty_table()
    team.load_program(table)
    child = os.fork()
    if child == 0:
        team._slots[1, abi.SLOT_DONE // abi.WORD] -= 1  # as if a worker had been inside a run
        for use in (team.run, team.settle):
            with contextlib.suppress(BackendFailure):
                use()
                os._exit(9)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    team.run()


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_ends_leaves_the_parents_workers_alone(team: Team) -> None:
    child = os.fork()
    if child == 0:
        team.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    table = empty_table()
    team.load_program(table)
    team.run()
    assert len(workers()) == 2
