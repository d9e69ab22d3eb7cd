"""Compiles kernels for a GPU by NVRTC, which needs no toolkit, and keeps them on disk.

A file lives in `<cache>/cuda/<digest>.cubin`; the digest covers the sources, the macros, the architecture
and NVRTC's version, so an entry is never stale. Writing is atomic, so processes may compile at the same time.
"""

import hashlib
import os
import tempfile
from pathlib import Path

from rase_core.errors import BackendFailure, BackendUnavailable

from rase_models.backends.cpu.kernel_cache import cache_directory
from rase_models.backends.cuda.device import Source
from rase_models.backends.cuda.formats import ELEMENTS, FORMATS, float_source
from rase_models.backends.cuda.sources import headers, kernel_files, source_text
from rase_models.kv_type import KvType

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
"""What every kernel is compiled for in tests."""

_WITH_MACROS = ("attention.cu", "floats.cu", "quantised.cu")


def all_sources() -> tuple[Source, ...]:
    """Return every file of kernels with every set of macros that is used."""
    from rase_models.backends.cuda.cache import attention_source

    attention = (attention_source(kind) for kind in (KvType.F16, KvType.F32))
    floats = (float_source(type_) for type_ in ELEMENTS)
    quantised = (form.source for form in FORMATS.values())
    plain = (Source(name) for name in kernel_files() if name not in _WITH_MACROS)
    return tuple(dict.fromkeys((*plain, *attention, *floats, *quantised)))


def compiled(source: Source, architecture: str) -> bytes:
    """Return the machine code of a file of kernels for an architecture such as sm_90.

    Raises BackendFailure with the compiler's words if it does not compile.
    """
    from cupy.cuda import nvrtc

    names = [name.encode() for name in headers()]
    texts = [text.encode() for text in headers().values()]
    program = nvrtc.createProgram(source_text(source.file), source.file, texts, names)
    macros = (f"-D{name}={value}" for name, value in source.macros)
    try:
        nvrtc.compileProgram(program, (f"--gpu-architecture={architecture}", "--std=c++17", *macros))
        return bytes(nvrtc.getCUBIN(program)) + b"\0"  # CuPy takes the last byte for a terminator
    except nvrtc.NVRTCError as error:
        raise BackendFailure(f"{source.file} does not compile: {nvrtc.getProgramLog(program)}") from error
    finally:
        nvrtc.destroyProgram(program)


def cubin_path(source: Source, architecture: str) -> Path:
    """Return a file with the machine code, compiled unless it is there; raises BackendFailure."""
    path = cache_directory() / "cuda" / f"{_digest(source, architecture)}.cubin"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, compiled(source, architecture))
    return path


def _write(path: Path, code: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(code)
    Path(name).replace(path)


def check_compiler() -> tuple[int, int]:
    """Return NVRTC's version; raises BackendUnavailable where it is not installed."""
    from cupy.cuda import nvrtc

    try:
        major, minor = nvrtc.getVersion()
    except RuntimeError as error:
        advice = "pip install 'rase-models[cuda12]' or 'rase-models[cuda13]', as CuPy is for CUDA 12 or 13"
        reason = f"NVRTC is not installed: {error}"
        raise BackendUnavailable("cuda", reason, advice, is_installed=False) from error
    return int(major), int(minor)


def _digest(source: Source, architecture: str) -> str:
    text = source_text(source.file)
    known = (source.file, source.macros, architecture, check_compiler(), text, headers())
    return hashlib.sha256(repr(known).encode()).hexdigest()[:32]
