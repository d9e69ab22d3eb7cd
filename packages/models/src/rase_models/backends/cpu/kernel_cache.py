"""Keeps compiled kernels on disk, so that only the first process on a machine compiles them.

A kernel lives in `<cache>/kernels/<fingerprint>/<symbol>.o`: SHA-256 of the object code, then the code. The
fingerprint covers the sources of all kernels, the compilers' versions and the CPU, so an entry is never
stale; a damaged one is compiled again. Writing is atomic, so processes may compile at the same time.
"""

import hashlib
import importlib.metadata
import logging
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Protocol

from rase_models.backends.base import BLOCK_TOKENS

_logger = logging.getLogger(__name__)
_DIGEST_BYTES = hashlib.sha256().digest_size
_ROOT = Path(__file__).parent
_SOURCE_FOLDERS = ("emission", "formats", "kernels", "simd")
_SOURCE_FILES = (
    "abi.py",
    "activations.py",
    "byte_abi.py",
    "compiler.py",
    "dequantisation.py",
    "drawing_abi.py",
    "encoding_abi.py",
    "instruction_set.py",
    "kernel_key.py",
    "machine_code.py",
    "packing.py",
    "ranking_abi.py",
    "repacking.py",
    "restating.py",
    "shapes.py",
    "text_abi.py",
    "tiles.py",
    "trie_abi.py",
)
_ENVIRONMENT = ("NUMBA_OPT", "NUMBA_LOOP_VECTORIZE", "NUMBA_SLP_VECTORIZE")
"""Settings of numba that change the code it makes."""


def cache_directory() -> Path:
    """Return the folder of rase's caches: RASE_CACHE, or `rase` in the user's cache folder."""
    chosen = os.environ.get("RASE_CACHE")
    return Path(os.path.expanduser(chosen)) if chosen else _user_cache() / "rase"  # noqa: PTH111


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".cache"


def kernel_sources() -> list[Path]:
    """Return the files that kernels are made of, relative to this folder."""
    folders = [_ROOT / name for name in _SOURCE_FOLDERS]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    return sorted([file.relative_to(_ROOT) for file in files] + [Path(name) for name in _SOURCE_FILES])


@cache
def fingerprint(cpu: str, features: str) -> str:
    """Return a name for everything that compiled code depends on, as it was when this was first asked."""
    digest = hashlib.sha256()
    for source in kernel_sources():
        digest.update(source.as_posix().encode() + b"\0" + (_ROOT / source).read_bytes() + b"\0")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("numba", "llvmlite")]
    settings = [f"{name}={os.environ.get(name, '')}" for name in _ENVIRONMENT]
    for part in (*versions, *settings, f"block of {BLOCK_TOKENS}", sys.platform, cpu, features):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:32]


def _is_private(directory: Path) -> bool:
    """Say whether nobody else can put code into a folder; a folder that is not there yet will be private."""
    if sys.platform == "win32" or not directory.exists():
        return True
    status = directory.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


class CacheKey(Protocol):
    """The name of something compiled."""

    @property
    def symbol(self) -> str:
        """What its file is called."""


class KernelCache:
    """A folder of object code. A folder that cannot be used costs compilations, never an error.

    Code is taken only from a folder that belongs to this user and that nobody else may write to.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._has_warned = False

    def load(self, key: CacheKey) -> bytes | None:
        """Return the object code of a kernel, or None when it is absent or damaged."""
        try:
            if not _is_private(self.directory) or not self._path(key).is_file():
                return None
            content = self._path(key).read_bytes()
        except OSError:
            return None
        digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        return code if code and hashlib.sha256(code).digest() == digest else None

    def store(self, key: CacheKey, code: bytes) -> None:
        """Keep the object code of a kernel; log a warning, the first time, where that is impossible."""
        try:
            self._write(self._path(key), hashlib.sha256(code).digest() + code)
        except OSError as error:
            if not self._has_warned:
                is_file = isinstance(error, FileExistsError)
                reason = f"{error.filename} is no folder" if is_file else error.strerror or error
                _logger.warning("compiled kernels cannot be kept in %s: %s", self.directory, reason)
            self._has_warned = True

    def _make_directory(self) -> None:
        for directory in (*reversed(self.directory.parents), self.directory):
            directory.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(self.directory):
            raise PermissionError("others may write to it")

    def _path(self, key: CacheKey) -> Path:
        return self.directory / f"{key.symbol}.o"

    def _write(self, path: Path, content: bytes) -> None:
        self._make_directory()
        handle, name = tempfile.mkstemp(dir=self.directory, prefix=path.stem, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
