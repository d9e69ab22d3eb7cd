"""The processes that compile this process's kernels, each on a core of its own.

A process of their own, since LLVM as Python has it runs one thread at a time. This process then never imports
numba, unless it has to compile itself: where it has one core, or where no such process can be started.
"""

import threading
import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

from rase_core.fork_safe import ForkSafeLock

from rase_models.backends.cpu.compiler import compile_kernel
from rase_models.backends.cpu.compiler_process import CompilerProcess
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.thread_count import count_named_by, thread_counts
from rase_models.machine_memory import machine_memory

_MOST = 4
"""With more, a model's kernels take no less time: a few of them are most of the work."""
_MEMORY = 1 << 30
"""Of the machine's, to each process, which takes up to 230 MB."""
_IDLE_SECONDS = 10.0
"""For so long processes wait for the next kernel; then their memory is worth more than their start."""


def compiler_count() -> int:
    """Return how many processes compile: RASE_COMPILE_PROCESSES, or else the threads that prefill.

    Of these at most four, and one for each GB of memory. Raises BackendFailure for a number that cannot be.
    """
    fitting = max(1, min(thread_counts()[1], _MOST, machine_memory() // _MEMORY))
    return count_named_by("RASE_COMPILE_PROCESSES") or fitting


class Compilers:
    """Compile for one CPU. One caller at a time; processes with nothing to do are ended after a while."""

    def __init__(self, cpu: str, features: str) -> None:
        self._cpu, self._features = cpu, features
        self._idle: list[CompilerProcess] = []
        self._lock = ForkSafeLock()
        self._end_later: threading.Timer | None = None
        self._has_lost = False
        weakref.finalize(self, _close, self._idle, self._lock)

    def compile(self, keys: Iterable[KernelKey]) -> Iterator[tuple[KernelKey, bytes]]:
        """Yield kernels with their object code as they are done. Raises what `compile_kernel` raises."""
        wanted, count = list(keys), compiler_count()
        if count == 1 or self._has_lost:
            yield from ((key, self._compile_here(key)) for key in wanted)
        else:
            yield from self._compile_beside(wanted, count)

    def _compile_beside(self, keys: list[KernelKey], count: int) -> Iterator[tuple[KernelKey, bytes]]:
        self._start(count)
        threads = ThreadPoolExecutor(min(count, len(keys)), thread_name_prefix="rase-compile")
        try:
            futures = {threads.submit(self._compile, key): key for key in keys}
            yield from ((futures[future], future.result()) for future in as_completed(futures))
        finally:
            threads.shutdown(cancel_futures=True)
            self._end_later = _closing_later(self._idle, self._lock)

    def _start(self, count: int) -> None:
        """Start all processes at once: who needs a kernel mostly needs more, and their start takes a second.

        Of a forked process, those of its parent do not run.
        """
        if self._end_later is not None:
            self._end_later.cancel()
        with self._lock:
            running = [process for process in self._idle if process.is_running]
            ended = [process for process in self._idle if process not in running]
            new = [CompilerProcess.start() for _ in range(count - len(running))]
            self._idle[:] = running + [process for process in new if process is not None]
        for process in ended:
            process.close()

    def _compile(self, key: KernelKey) -> bytes:
        with self._lock:
            process = self._idle.pop() if self._idle else None
        code = None if process is None else self._ask(process, key)
        return self._compile_here(key) if code is None else code

    def _ask(self, process: CompilerProcess, key: KernelKey) -> bytes | None:
        code = process.compile(key, self._cpu, self._features)
        if code is None:
            self._has_lost = True  # the next ones would hardly do better
            process.close()
            return None
        with self._lock:
            self._idle.append(process)
        return code

    def _compile_here(self, key: KernelKey) -> bytes:
        return compile_kernel(key, self._cpu, self._features)


def _closing_later(processes: list[CompilerProcess], lock: ForkSafeLock) -> threading.Timer:
    timer = threading.Timer(_IDLE_SECONDS, _close, (processes, lock))
    timer.daemon = True
    timer.start()
    return timer


def _close(processes: list[CompilerProcess], lock: ForkSafeLock) -> None:
    with lock:
        closed, processes[:] = list(processes), []
    for process in closed:
        process.close()
