"""Using fewer threads while something else takes cores."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from rase_models.backends.base import ThreadCounts
from rase_models.backends.cpu.core_watch import CoreWatch
from rase_models.backends.cpu.cores import usable_processors
from rase_models.backends.cpu.idle_time import idle_seconds
from rase_models.loading import load_decoder


def nobody_knows() -> None:
    return None


def watch_of(threads: int) -> CoreWatch:
    """Return a watch where the system does not tell of idle processors."""
    return CoreWatch(threads, idle=nobody_knows)


def run(watch: CoreWatch, now: float, share: float, seconds: float = 0.005, wanted: int = 2) -> int:
    """Let one run happen in which each of several threads has this share of a core; returns their number."""
    threads = watch.threads(wanted, now)
    had = seconds * (threads * share if threads > 1 else 1.0)
    watch.saw(threads, seconds, had, now + seconds)
    return threads


def runs(watch: CoreWatch, start: float, count: int, share: float) -> list[int]:
    return [run(watch, start + 0.005 * index, share) for index in range(count)]


def test_threads_that_have_their_cores_stay() -> None:
    assert runs(watch_of(2), 0.0, 1000, 0.95) == [2] * 1000


def test_a_taken_core_is_noticed_within_a_few_runs() -> None:
    taken = runs(watch_of(2), 0.0, 30, 0.6)
    assert taken == [2] * 14 + [1] * 16


def test_bursts_of_other_work_between_steps_are_no_taken_core() -> None:
    watch = watch_of(2)
    shares = [0.95, 0.55, 0.9, 0.7, 0.95] * 200
    assert [run(watch, 0.005 * index, share) for index, share in enumerate(shares)] == [2] * 1000


def test_trials_of_another_thread_become_rare() -> None:
    watch = watch_of(2)
    taken = runs(watch, 0.0, 20_000, 0.6)
    assert taken[:2000].count(2) < 300
    assert taken[10_000:].count(2) < 500


def test_a_free_core_is_used_again() -> None:
    watch = watch_of(2)
    runs(watch, 0.0, 1000, 0.6)
    after = runs(watch, 5.0, 2000, 1.0)
    assert after[-1] == 2
    assert after.index(2) * 0.005 <= 5.0


def test_trouble_after_a_long_peace_is_tried_again_soon() -> None:
    watch = watch_of(2)
    runs(watch, 0.0, 1000, 0.6)
    runs(watch, 5.0, 2000, 1.0)
    later = runs(watch, 15.0, 100, 0.6)
    assert 2 in later[10:30]


def test_the_last_thread_always_runs() -> None:
    watch = watch_of(1)
    watch.saw(1, 1.0, 0.1, 1.0)
    assert watch.threads(1, 2.0) == 1


def test_one_of_many_threads_goes_at_a_time() -> None:
    watch = CoreWatch(8)
    assert [run(watch, 0.12 * index, 0.9, 0.12, 8) for index in range(4)] == [8, 7, 6, 5]
    assert watch.threads(2, 0.48) == 2


def test_another_number_of_threads_in_between_changes_no_bit(tiny_path: Path) -> None:
    tokens, results = list(range(100)), []
    for threads in (1, ThreadCounts(1, 3), ThreadCounts(3, 2)):
        decoder = load_decoder(tiny_path, "cpu", threads)
        prompt = decoder.prefill(tokens[:90])
        results.append(np.stack([prompt, *(decoder.decode(token) for token in tokens[90:])]))
        decoder.close()
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


class Cores:
    """Two cores, one of which something else may have; tells as the system does how long they were idle."""

    def __init__(self) -> None:
        self.now = self.idle = 0.0
        self.is_taken = True
        self.watch = CoreWatch(2, idle=lambda: self.idle)

    def run(self, count: int) -> list[int]:
        """Let runs of 5 ms happen; returns the numbers of their threads."""
        threads = []
        for _ in range(count):
            threads.append(run(self.watch, self.now, 0.6 if self.is_taken else 1.0))
            self.now += 0.005
            self.idle += 0.0 if self.is_taken or threads[-1] == 2 else 0.005
        return threads


def test_a_core_that_is_never_idle_is_not_tried() -> None:
    cores = Cores()
    assert cores.run(4000)[20:].count(2) == 0


def test_a_core_that_is_idle_again_is_used_within_a_fifth_of_a_second() -> None:
    cores = Cores()
    cores.run(4000)
    cores.is_taken = False
    threads = cores.run(100)
    assert threads.index(2) * 0.005 <= 0.2 and threads[-1] == 2


def test_idle_time_of_the_processors_in_use_is_what_the_system_says(tmp_path: Path) -> None:
    before = idle_seconds()
    if before is None:
        pytest.skip("this system does not tell")
    time.sleep(0.05)
    after = idle_seconds()
    assert after is not None and 0 <= after - before < 60 * (os.cpu_count() or 1)
    statistics = tmp_path / "stat"
    numbers = sorted(usable_processors())
    lines = [f"cpu{number} 1 2 3 {100 * (number + 1)} 50 6 7" for number in range(max(numbers) + 2)]
    statistics.write_text("\n".join(["cpu 9 9 9 9 9 9 9", *lines, "intr 5"]))
    ticks = sum(100 * (number + 1) + 50 for number in numbers)
    assert idle_seconds(statistics) == ticks / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("text", ["", "cpu0", "cpu0 1 2 3 x y", "nonsense"])
def test_odd_statistics_tell_nothing_of_idle_time(tmp_path: Path, text: str) -> None:
    (tmp_path / "stat").write_text(text)
    assert idle_seconds(tmp_path / "stat") is None
    assert idle_seconds(tmp_path / "none") is None
