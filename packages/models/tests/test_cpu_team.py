"""Threads that run op tables."""

import gc
import os
import sys
import threading
import time

import pytest
from rase_core.errors import BackendFailure
from rase_models.backends.cpu.arena import Arena
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import kernel_library
from rase_models.backends.cpu.op_table import OpTable, Row, place_waits
from rase_models.backends.cpu.team import TEAM_KERNELS, Team

ADD = KernelKey("add_rows")


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("rase-cpu")]


def wait_until_gone() -> None:
    deadline = time.monotonic() + 10
    while workers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert workers() == []


@pytest.fixture
def team() -> Team:
    library = kernel_library()
    library.require([*TEAM_KERNELS, ADD])
    made = Team(library, 3)
    yield made  # type: ignore[misc]
    made.close()
    assert workers() == []


def test_workers_end_when_the_team_is_closed(team: Team) -> None:
    assert len(workers()) == 2
    team.close()
    assert workers() == []
    team.close()


def test_a_closed_team_does_not_run(team: Team) -> None:
    team.load_program(empty_table())
    team.close()
    with pytest.raises(BackendFailure, match="closed"):
        team.run()


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
        try:
            team.run()
        except BackendFailure as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
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
