"""A Python process that compiles kernels for another one.

A request is a line of JSON: the fingerprint that the sources should have, a kernel's name and parameters, the
CPU and its features. An answer is the SHA-256 of the object code, its length as eight bytes, and the code.
"""

import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from rase_models.backends.cpu.kernel_cache import fingerprint
from rase_models.backends.cpu.kernel_key import KernelKey

_HEAD = struct.Struct(f"<{hashlib.sha256().digest_size}sQ")
_MAIN = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import main; main()"


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
        # isolated: it imports from where this process does, and runs nothing else that lies about
        command = [sys.executable, "-I", "-c", _MAIN, *filter(None, sys.path)]
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
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
        request = json.dumps([fingerprint(cpu, features), key.name, key.parameters, cpu, features])
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


def main() -> None:
    """Compile what the standard input asks for."""
    import numba  # noqa: F401  # before it is needed

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library may print is no answer
    for request in sys.stdin.buffer:
        code = _compile(request)
        answers.write(_HEAD.pack(hashlib.sha256(code).digest(), len(code)) + code)
        answers.flush()


def _compile(request: bytes) -> bytes:
    from rase_models.backends.cpu.compiler import compile_kernel

    expected, name, parameters, cpu, features = json.loads(request)
    if fingerprint(cpu, features) != expected:
        raise SystemExit("rase has been installed anew since the process that asks was started")
    return compile_kernel(KernelKey(name, tuple(parameters)), cpu, features)
