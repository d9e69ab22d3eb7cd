"""A Python process that compiles kernels for another one.

A request is a line of JSON: a kernel's name and parameters, the CPU and its features. An answer is the
SHA-256 of the object code, its length as eight bytes, and the code.
"""

import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO

from rase_models.backends.cpu.kernel_key import KernelKey

_HEAD = struct.Struct(f"<{hashlib.sha256().digest_size}sQ")
_IDLE_SECONDS = 10.0
"""For so long a process waits for its next kernel; then its memory is worth more than its start."""


class CompilerProcess:
    """One such process, as it is seen by who started it. Not thread-safe."""

    def __init__(self, process: subprocess.Popen[bytes], requests: IO[bytes], answers: IO[bytes]) -> None:
        self._process, self._requests, self._answers = process, requests, answers

    @classmethod
    def start(cls) -> "CompilerProcess | None":
        """Start one; None where this program is not run by a Python that can be started once more."""
        name = Path(sys.executable or "").name.lower()
        if getattr(sys, "frozen", False) or not name.startswith("python"):
            return None
        folders = os.pathsep.join(folder for folder in sys.path if folder)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": folders},
            )
        except OSError:
            return None
        return cls(process, process.stdin, process.stdout) if process.stdin and process.stdout else None

    @property
    def is_running(self) -> bool:
        """Whether it still waits for kernels to compile."""
        return self._process.poll() is None

    def compile(self, key: KernelKey, cpu: str, features: str) -> bytes | None:
        """Return what `compile_kernel` returns; None where the process ends instead."""
        request = json.dumps([key.name, key.parameters, cpu, features])
        try:
            self._requests.write(request.encode() + b"\n")
            self._requests.flush()
        except OSError:
            return None
        return self._answer()

    def _answer(self) -> bytes | None:
        head = self._answers.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        digest, length = _HEAD.unpack(head)
        code = self._answers.read(length)
        return code if hashlib.sha256(code).digest() == digest else None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._requests, self._answers):
            with suppress(OSError):  # what was not sent yet is for nobody
                pipe.close()


def _requests() -> Iterator[bytes]:
    """Yield requests until there are no more, or none for a while."""
    lines: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        lines.put(b"")

    Thread(target=read, daemon=True).start()
    try:
        while line := lines.get(timeout=_IDLE_SECONDS):
            yield line
    except Empty:
        pass


def main() -> None:
    """Compile what the standard input asks for."""
    import numba  # noqa: F401  # before it is needed

    from rase_models.backends.cpu.compiler import compile_kernel

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library may print is no answer
    for request in _requests():
        name, parameters, cpu, features = json.loads(request)
        code = compile_kernel(KernelKey(name, tuple(parameters)), cpu, features)
        answers.write(_HEAD.pack(hashlib.sha256(code).digest(), len(code)) + code)
        answers.flush()
    os._exit(0)  # a thread that waits for more input would be in the way of an orderly end


if __name__ == "__main__":
    main()
