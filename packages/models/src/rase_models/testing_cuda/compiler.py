"""Kernels compiled for the CPU by g++ or clang++, kept in the folder of temporary files."""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rase_models.backends.cuda.device import Source
from rase_models.backends.cuda.sources import headers, source_text

_HEADER = Path(__file__).with_name("emulation.h")
_OPTIONS = (
    *("-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE"),
    "-fno-thread-jumps",  # which would make two calls, at two places, of one where lanes meet
    *("-fsanitize=alignment", "-fno-sanitize-recover=alignment", "-ffp-contract=off"),
)
_KERNEL = re.compile(r'extern "C" __global__ void (\w+)')
_INCLUDE = re.compile(r'#include "(\w+\.cuh)"')
_STATIC = re.compile(r"__shared__ (\w+) (\w+)\[(\w+)\];")
_DYNAMIC = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")


def compiler() -> str | None:
    """Return the C++ compiler of this machine, None if there is none that serves."""
    return shutil.which("g++") if os.name == "posix" else None


@cache
def library(source: Source) -> ctypes.CDLL:
    """Compile a file of kernels, unless it is compiled already."""
    return library_of(source_text(source.file), source.macros)


def library_of(text: str, macros: tuple[tuple[str, str], ...] = ()) -> ctypes.CDLL:
    """Compile the text of a file of kernels."""
    kernels = dict.fromkeys(_kernels(text))
    text = "\n".join(
        ('#include "emulation.h"', _emulated(text), *(f"KERNEL({name})" for name in kernels), "")
    )
    options = [*_OPTIONS, *(f"-D{name}={value}" for name, value in macros)]
    known = "\0".join((text, *options, _HEADER.read_text(), *map(_emulated, headers().values())))
    path = Path(tempfile.gettempdir()) / f"rase-emulated-{hashlib.sha256(known.encode()).hexdigest()[:20]}.so"
    if not path.exists():
        _compile(text, options, path)
    return ctypes.CDLL(str(path))


def _kernels(text: str) -> Iterator[str]:
    """Give the kernels of a file and of its headers."""
    yield from _KERNEL.findall(text)
    for name in _INCLUDE.findall(text):
        yield from _kernels(headers().get(name, ""))


def _emulated(text: str) -> str:
    """Put what the emulation has in the place of what the preprocessor cannot replace."""
    text = text.replace('extern "C" __global__', "static")
    text = _DYNAMIC.sub(r"\1* \2 = (\1*)emulation::dynamic_memory();", text)
    return _STATIC.sub(r"static emulation::Shared<\1, \3> \2_held; \1* \2 = \2_held.values;", text)


def _compile(text: str, options: list[str], path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, header in headers().items():
            (Path(folder) / name).write_text(_emulated(header))
        made = Path(folder) / "kernels.so"
        command = [
            str(compiler()),
            *options,
            f"-I{folder}",
            f"-I{_HEADER.parent}",
            "-x",
            "c++",
            "-",
            "-o",
            str(made),
        ]
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode()[:4000])
        kept = path.with_suffix(f".{os.getpid()}")
        shutil.copy(made, kept)
        kept.replace(path)
