"""The compiled kernels of this process: found in the cache or compiled, linked once, and known by address."""

import logging
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from rase_core.fork_safe import ForkSafeLock
from rase_core.progress import Progress, ProgressEvent, ProgressPhase

from rase_models.backends.cpu.compiler import target
from rase_models.backends.cpu.compilers import Compilers
from rase_models.backends.cpu.kernel_cache import KernelCache, cache_directory, fingerprint
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.machine_code import Entry, MachineCode

_logger = logging.getLogger(__name__)


def kernel_library() -> "KernelLibrary":
    """Return the library of this process for the present target and cache folder."""
    cpu, features = target()
    return _library(cpu, features, cache_directory())


@cache
def _library(cpu: str, features: str, caches: Path) -> "KernelLibrary":
    return KernelLibrary(cpu, features, caches / "kernels" / fingerprint(cpu, features))


class KernelLibrary:
    """Kernels by key, for one CPU. Thread-safe. Addresses are good as long as the library lives."""

    def __init__(self, cpu: str, features: str, directory: Path) -> None:
        self._cpu, self._features = cpu, features
        self._cache, self._compilers = KernelCache(directory), Compilers(cpu, features)
        self._linked: dict[KernelKey, MachineCode] = {}
        self._lock = ForkSafeLock()

    def require(self, keys: Iterable[KernelKey], progress: Progress | None = None) -> None:
        """Link kernels that are not linked yet, compiling those that the cache does not have."""
        with self._lock:
            wanted = sorted(set(keys) - self._linked.keys())
            if wanted:
                objects = self._collect(wanted, progress)
                machine_code = MachineCode(objects, self._cpu, self._features)
                self._linked.update(dict.fromkeys(wanted, machine_code))

    def _collect(self, keys: Iterable[KernelKey], progress: Progress | None) -> dict[str, bytes]:
        """Return the object code of kernels by symbol."""
        found = {key: self._cache.load(key) for key in keys}
        missing = [key for key, code in found.items() if code is None]
        objects = {key.symbol: code for key, code in found.items() if code is not None}
        if missing:
            self._compile(missing, objects, progress)
        return objects

    def _compile(self, keys: list[KernelKey], objects: dict[str, bytes], progress: Progress | None) -> None:
        _logger.info("compiling %d kernels for this processor", len(keys))
        _report(0, len(keys), progress)
        for done, (key, code) in enumerate(self._compilers.compile(keys), start=1):
            self._cache.store(key, code)
            objects[key.symbol] = code
            _report(done, len(keys), progress)

    def address(self, key: KernelKey) -> int:
        """Return the address of a linked kernel."""
        return self._linked[key].address(key.symbol)

    def entry(self, key: KernelKey) -> Entry:
        """Return a linked kernel as a Python callable."""
        return self._linked[key].entry(key.symbol)


def _report(done: int, total: int, progress: Progress | None) -> None:
    if progress is not None:
        progress(ProgressEvent(ProgressPhase.COMPILE, "kernels", done, total))
