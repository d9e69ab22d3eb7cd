"""The compiled kernels of a process: found in the cache or compiled, linked, and known by address."""

import logging
from collections.abc import Iterable

from rase_core.progress import Progress, ProgressEvent, ProgressPhase

from rase_models.backends.cpu.compiler import compile_kernel, target
from rase_models.backends.cpu.kernel_cache import KernelCache, cache_directory, fingerprint
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.machine_code import Entry, MachineCode

_logger = logging.getLogger(__name__)


class KernelLibrary:
    """Kernels by key. Addresses are good as long as the library lives."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._cpu, self._features = target()
        folder = cache_directory() / "kernels" / fingerprint(self._cpu, self._features)
        self._cache = KernelCache(folder)
        self._progress = progress
        self._linked: dict[KernelKey, MachineCode] = {}

    def require(self, keys: Iterable[KernelKey]) -> None:
        """Link kernels that are not linked yet, compiling those that the cache does not have."""
        wanted = sorted(set(keys) - self._linked.keys())
        if not wanted:
            return
        objects = {key: self._cache.load(key) for key in wanted}
        missing = [key for key in wanted if objects[key] is None]
        for index, key in enumerate(missing):
            self._report(index, len(missing))
            objects[key] = self._compile(key)
        if missing:
            self._report(len(missing), len(missing))
        code = {key.symbol: code for key, code in objects.items() if code is not None}
        machine_code = MachineCode(code, self._cpu, self._features)
        self._linked.update(dict.fromkeys(wanted, machine_code))

    def _compile(self, key: KernelKey) -> bytes:
        code = compile_kernel(key, self._cpu, self._features)
        self._cache.store(key, code)
        return code

    def _report(self, done: int, total: int) -> None:
        if done == 0:
            _logger.info("compiling %d kernels for this processor", total)
        if self._progress is not None:
            self._progress(ProgressEvent(ProgressPhase.COMPILE, "kernels", done, total))

    def address(self, key: KernelKey) -> int:
        """Return the address of a linked kernel."""
        return self._linked[key].address(key.symbol)

    def entry(self, key: KernelKey) -> Entry:
        """Return a linked kernel as a Python callable."""
        return self._linked[key].entry(key.symbol)
