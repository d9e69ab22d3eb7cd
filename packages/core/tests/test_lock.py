import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rase_core.lock import FileLock, LockHeld

HOLD = """
import sys, time
from pathlib import Path
from rase_core.lock import FileLock, LockHeld
with FileLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_threads_take_turns(tmp_path: Path) -> None:
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(10):
            with FileLock(tmp_path / "lock"):
                inside += 1
                most = max(most, inside)
                time.sleep(0.0005)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_it_waits_for_another_process_and_is_free_when_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(TimeoutError, match="held by another process"), FileLock(path, timeout=0.05):
            pass
        other.kill()
        other.wait()
    with FileLock(path, timeout=5):
        pass


def test_a_lock_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), FileLock(tmp_path / "missing" / "lock"):
        pass


def test_a_lock_is_taken_only_when_it_is_free(tmp_path: Path) -> None:
    one, two = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert one.acquire() and not two.acquire()
    one.release()
    one.release()
    assert two.acquire()
    two.release()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists the open files")
def test_what_cannot_be_locked_is_closed_again(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path):
        for _ in range(5):
            with pytest.raises(LockHeld), FileLock(path, timeout=0):
                pass
        links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        assert sum(os.path.realpath(link) == str(path) for link in links) == 1
