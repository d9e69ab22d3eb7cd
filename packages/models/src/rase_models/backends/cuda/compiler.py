"""Compiles kernels for a GPU by NVRTC, which needs no toolkit, and keeps them on disk.

A file lives in `<cache>/cuda/<digest>.o`; the digest covers the sources, the macros, the options, and NVRTC's
version, so an entry is never stale. What else is true of it is KernelCache's.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rase_core.errors import BackendFailure, BackendUnavailable

from rase_models.backends.cpu.kernel_cache import KernelCache, cache_directory
from rase_models.backends.cuda.device import Source
from rase_models.backends.cuda.faults import library_needed
from rase_models.backends.cuda.formats import ELEMENTS, FORMATS, float_source
from rase_models.backends.cuda.sources import headers, kernel_files, source_text
from rase_models.kv_type import KvType

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
"""What every kernel is compiled for in tests."""

_WITH_MACROS = ("attention.cu", "floats.cu", "quantised.cu")
_VIRTUAL = "compute_"

logger = logging.getLogger(__name__)


class _Digest(NamedTuple):
    """The name of a file of machine code."""

    symbol: str


def all_sources() -> tuple[Source, ...]:
    """Return every file of kernels with every set of macros that is used."""
    from rase_models.backends.cuda.cache import attention_source

    attention = (attention_source(kind) for kind in (KvType.F16, KvType.F32))
    floats = (float_source(type_) for type_ in ELEMENTS)
    quantised = (form.source for form in FORMATS.values())
    plain = (Source(name) for name in kernel_files() if name not in _WITH_MACROS)
    return tuple(dict.fromkeys((*plain, *attention, *floats, *quantised)))


def architecture_for(capability: int, supported: Sequence[int], device: str = "cuda") -> str:
    """Return what to compile for: a compute capability, times ten, by those that NVRTC knows.

    The code of an earlier GPU of the same generation runs on later ones, and the driver itself compiles for
    those of later generations, of the newest that NVRTC knows. Raises BackendUnavailable for an older GPU.
    """
    earlier = [known for known in supported if known <= capability]
    alike = [known for known in earlier if known // 10 == capability // 10]
    if alike:
        return f"sm_{max(alike)}"
    if not earlier:
        least = min(supported) / 10
        reason = f"the GPU's compute capability is {capability / 10}, this version of NVRTC needs {least}"
        raise BackendUnavailable(device, reason, "install rase-models[cuda12], or use --device cpu")
    return f"{_VIRTUAL}{max(earlier)}"


def supported_capabilities() -> Sequence[int]:
    """Return the compute capabilities, times ten, that NVRTC compiles for."""
    from cupy.cuda import nvrtc

    return [int(known) for known in nvrtc.getSupportedArchs()]


def compiled(source: Source, architecture: str) -> bytes:
    """Return a file of kernels as machine code of an architecture such as sm_90, or as PTX of compute_90.

    Raises BackendFailure with the compiler's words if it does not compile.
    """
    from cupy.cuda import nvrtc

    names = [name.encode() for name in headers()]
    texts = [text.encode() for text in headers().values()]
    program = nvrtc.createProgram(source_text(source.file), source.file, texts, names)
    try:
        nvrtc.compileProgram(program, _options(source, architecture))
        made = nvrtc.getPTX if architecture.startswith(_VIRTUAL) else nvrtc.getCUBIN
        return bytes(made(program)) + b"\0"  # CuPy takes the last byte for a terminator
    except nvrtc.NVRTCError as error:
        raise BackendFailure(f"{source.file} does not compile: {nvrtc.getProgramLog(program)}") from error
    finally:
        nvrtc.destroyProgram(program)


def check_compiler() -> tuple[int, int]:
    """Return NVRTC's version; raises BackendUnavailable where it is not installed."""
    from cupy.cuda import nvrtc

    with library_needed("NVRTC"):
        major, minor = nvrtc.getVersion()
    return int(major), int(minor)


def _options(source: Source, architecture: str) -> tuple[str, ...]:
    macros = (f"-D{name}={value}" for name, value in source.macros)
    return f"--gpu-architecture={architecture}", "--std=c++17", *macros


class CompiledKernels:
    """Files of kernels as `compiled` makes them of an architecture, from the disk where they are on it.

    Args:
        version: the compiler's.
        make: the compiler.
    """

    def __init__(
        self,
        architecture: str,
        version: tuple[int, int],
        make: Callable[[Source, str], bytes] = compiled,
    ) -> None:
        self._architecture, self._version, self._make = architecture, version, make
        self._files = KernelCache(cache_directory() / "cuda")

    def code(self, source: Source) -> bytes:
        """Return what to load; raises BackendFailure if it does not compile."""
        key = _Digest(self._digest(source))
        code = self._files.load(key)
        if code is None:
            logger.info("compiling %s for %s", source.file, self._architecture)
            code = self._make(source, self._architecture)
            self._files.store(key, code)
        return code

    def _digest(self, source: Source) -> str:
        options, text = _options(source, self._architecture), source_text(source.file)
        known = (source.file, options, self._version, text, headers())
        return hashlib.sha256(repr(known).encode()).hexdigest()[:32]
