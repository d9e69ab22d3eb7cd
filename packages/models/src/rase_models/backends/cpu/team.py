"""A team of threads that runs op tables: the calling thread and its workers, which sleep between runs.

Workers are Python threads that spend their life in compiled code, with the GIL free. They end with `close`,
when the team is dropped, or with the process. A forked child has no workers: its team refuses to run.
"""

import os
import threading
import time
import weakref
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import BackendFailure

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.arena import Region
from rase_models.backends.cpu.futex import futex_number
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import KernelLibrary
from rase_models.backends.cpu.machine_code import Entry
from rase_models.backends.cpu.op_table import OpTable

PAUSES = KernelKey("pauses")


def run_kernel(futex: int) -> KernelKey:
    """Return the kernel that starts runs, for the number of the futex system call."""
    return KernelKey("run", (futex,))


def worker_kernel(futex: int) -> KernelKey:
    """Return the kernel of a worker, for the number of the futex system call."""
    return KernelKey("worker", (futex,))


def team_kernels(futex: int) -> tuple[KernelKey, ...]:
    """Return the kernels that a team needs."""
    return (run_kernel(futex), worker_kernel(futex), PAUSES)


TEAM_KERNELS = team_kernels(futex_number())


_IDLE_SECONDS = 5e-4
"""How long an idle worker spins before it sleeps: a wake-up costs tens of microseconds."""
_PATIENCE_SECONDS = 2e-6
"""How long a thread spins at a wait before it yields: the one it waits for may need the core."""
_PROBE_PAUSES = 20_000
_QUICK_POLLS = 200


@dataclass(slots=True)
class _Crew:
    """What the workers share with the team: it must outlive them, and must not hold the team itself.

    Attributes:
        run, work: kernels of the library.
        alarms: wake the workers that sleep in Python, none where kernels can sleep.
    """

    library: KernelLibrary
    run: Entry
    work: Entry
    memory: Region
    stopping: threading.Event = field(default_factory=threading.Event)
    held: dict[str, object] = field(default_factory=dict)
    alarms: list[threading.Event] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)


class Team:
    """Threads that run op tables together. Not thread-safe: one run at a time.

    BackendFailure when the system does not let it have so many. `futex` is for tests.

    Attributes:
        threads: how many, the caller's included.
        words: the context, int64, indexed by `abi` offsets / 8.
    """

    def __init__(
        self,
        library: KernelLibrary,
        threads: int,
        words: int = abi.CONTEXT_BYTES,
        *,
        futex: int | None = None,
    ) -> None:
        futex = futex_number() if futex is None else futex
        library.require(team_kernels(futex))
        self.threads = threads
        memory = Region(words + threads * abi.SLOT_BYTES)
        self.words: NDArray[np.int64] = memory.bytes[:words].view(np.int64)
        self._context = memory.address
        run, work = library.entry(run_kernel(futex)), library.entry(worker_kernel(futex))
        self._crew = _Crew(library, run, work, memory)
        self._process = os.getpid()
        self._slots = memory.bytes[words:].view(np.int64).reshape(threads, -1)
        self.set(abi.SLOTS, memory.address + words)
        self._set_patience(library)
        self._stop = weakref.finalize(self, _stop, self._crew)
        self._start_workers(sleep_in_python=futex == 0)

    def _set_patience(self, library: KernelLibrary) -> None:
        start = time.perf_counter()
        library.entry(PAUSES)(0, 1, _PROBE_PAUSES, 0)
        seconds = max(time.perf_counter() - start, 1e-6) / _PROBE_PAUSES
        self.set(abi.SPINS, int(_IDLE_SECONDS / seconds))
        self.set(abi.PATIENCE, int(_PATIENCE_SECONDS / seconds))

    def _start_workers(self, sleep_in_python: bool) -> None:
        crew = self._crew
        for number in range(1, self.threads):
            alarm = threading.Event()
            worker = threading.Thread(
                target=_work, args=(crew, number, alarm), name=f"rase-cpu-{number}", daemon=True
            )
            try:
                worker.start()
            except RuntimeError as error:  # the system's limit
                self.close()
                what = f"cannot start thread {number + 1} of {self.threads}: {error}"
                raise BackendFailure(what, "use fewer threads") from error
            crew.threads.append(worker)
            if sleep_in_python:
                crew.alarms.append(alarm)
        self._clocks = [clock for thread in crew.threads if (clock := _clock_of(thread)) is not None]

    def set(self, offset: int, value: int) -> None:
        """Set a word of the context. Safe between runs for words that only claimed work reads."""
        self.words[offset // abi.WORD] = value

    def hold(self, name: str, memory: object) -> None:
        """Keep memory that runs use until the workers are gone, in place of what had this name.

        A worker may be late by a run, so call `settle` before memory is replaced.
        """
        self._crew.held[name] = memory

    def load_program(self, table: OpTable) -> None:
        """Take an op table."""
        self.settle()
        self.hold("program", table)
        self.set(abi.PROGRAM, table.address)
        self.set(abi.PROGRAM_END, table.address + table.count * abi.OP_BYTES)

    def require_usable(self) -> None:
        """Raise BackendFailure when the team is closed, or the process was forked since it was made."""
        if not self._stop.alive:
            raise BackendFailure("this model was closed", "load it again")
        if os.getpid() != self._process:
            raise BackendFailure(
                "this model was loaded before the process was forked", "load models after the fork"
            )

    def run(self, threads: int | None = None) -> None:
        """Run the program once with so many threads, all by default.

        BackendFailure as `require_usable` says.
        """
        self.require_usable()
        self.set(abi.ACTIVE, threads or self.threads)
        if not self._crew.alarms:
            self._crew.run(0, self.threads, abi.WHOLE_RUN, self._context)
            return
        self._crew.run(0, self.threads, abi.START_OF_RUN, self._context)
        if self.words[abi.SLEEPERS_SEEN // abi.WORD]:
            self._sound_alarms()
        self._crew.run(0, self.threads, abi.REST_OF_RUN, self._context)

    def _sound_alarms(self) -> None:
        for alarm in self._crew.alarms:
            alarm.set()

    def processor_seconds(self, threads: int) -> float | None:
        """Return the processor time that the caller and the first workers of so many have had so far.

        None where the system does not tell.
        """
        if len(self._clocks) < threads - 1:
            return None
        return time.thread_time() + sum(map(time.clock_gettime, self._clocks[: threads - 1]))

    def settle(self) -> None:
        """Wait until no worker is inside a run, so that memory that a run uses may change place or go.

        BackendFailure as `require_usable` says.
        """
        self.require_usable()
        step = int(self.words[abi.STEP // abi.WORD])
        done = self._slots[1:, abi.SLOT_DONE // abi.WORD]
        polls = 0
        while (done != step).any():
            self._sound_alarms()
            time.sleep(0 if polls < _QUICK_POLLS else 1e-4)
            polls += 1

    def close(self) -> None:
        """Send the workers home and wait until they are gone. A closed team cannot run."""
        self._stop()


def _clock_of(thread: threading.Thread) -> int | None:
    """Return the clock of a running thread's processor time; None where the system has none."""
    if not hasattr(time, "pthread_getcpuclockid") or thread.ident is None:
        return None
    return time.pthread_getcpuclockid(thread.ident)


def _work(crew: _Crew, number: int, alarm: threading.Event) -> None:
    """Live as a worker: run, and sleep here where compiled code cannot."""
    slept = 0
    while not crew.stopping.is_set():
        crew.work(number, 0, slept, crew.memory.address)
        if crew.stopping.is_set():
            return
        alarm.wait()
        alarm.clear()
        slept = 1


def _stop(crew: _Crew) -> None:
    crew.stopping.set()
    crew.run(-1, 0, abi.WHOLE_RUN, crew.memory.address)
    for alarm in crew.alarms:
        alarm.set()
    for thread in crew.threads:
        if thread is not threading.current_thread():
            thread.join()
    crew.held.clear()
