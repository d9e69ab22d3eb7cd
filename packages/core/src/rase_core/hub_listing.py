"""The files of a hub repository, and which of them a request means."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rase_core.enumeration import enumerated
from rase_core.errors import HubError
from rase_core.weights import split_parts

_GGUF = ".gguf"
_NO_MODELS = re.compile(r"(^|[/._-])(mmproj|imatrix)([/._-]|$)", re.IGNORECASE)


def is_model_name(name: str) -> bool:
    """Tell whether a file is a model by its name, or a part of one, and no projector or matrix beside one."""
    return name.lower().endswith(_GGUF) and not _NO_MODELS.search(name)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository: size in bytes, sha256 if the hub names one, path if it is on this machine."""

    name: str
    size: int | None
    sha256: str | None
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class HubListing:
    """A repository at a commit: all its files, or those that are in the cache."""

    repo: str
    commit: str
    files: Mapping[str, RemoteFile]
    is_cached: bool = False

    def choose(self, file: str | None, quant: str | None) -> tuple[RemoteFile, ...]:
        """Return the file of this name, or the only model of this quantisation, with all its parts in order.

        Raises HubError listing what is there when there is none, or more than one.
        """
        names = _parts(file) if file is not None else self._only_model(quant)
        missing = [name for name in names if name not in self.files]
        if missing:
            raise self._lacks(f"file {missing[0]!r}", missing[0])
        return tuple(self.files[name] for name in names)

    def _only_model(self, quant: str | None) -> tuple[str, ...]:
        found = sorted({_parts(name) for name in self._models() if quant is None or _has_quant(name, quant)})
        wanted = "GGUF file" if quant is None else f"GGUF file of type {quant}"
        if not found:
            raise self._lacks(wanted, _GGUF)
        if len(found) > 1:
            advice = f"name one of these files: {enumerated(parts[0] for parts in found)}"
            place = " in the cache" if self.is_cached else ""
            raise HubError(f"{self.repo} has more than one {wanted}{place}", advice)
        return found[0]

    def _models(self) -> list[str]:
        return [name for name in self.files if is_model_name(name)]

    def _lacks(self, what: str, name: str) -> HubError:
        if not self.is_cached:
            return HubError(f"{self.repo} has no {what}", self._what_is_there(name))
        message = f"the cache has no {what} of {self.repo}, and offline mode is on"
        return HubError(message, f"unset HF_HUB_OFFLINE to download it; {self._what_is_there(name)}")

    def _what_is_there(self, wanted: str) -> str:
        place = "the cache has the" if self.is_cached else "its"
        if not wanted.lower().endswith(_GGUF):
            return f"{place} files: {enumerated(sorted(self.files))}"
        return f"{place} GGUF files: {enumerated(sorted(self._models()))}"


def split_quant(repo: str) -> tuple[str, str | None]:
    """Return the repository and the quantisation of `owner/name:QUANT`; the latter None when not given.

    Raises HubError for a colon with nothing after it.
    """
    name, colon, quant = repo.partition(":")
    if colon and not quant.strip():
        raise HubError(f"{repo!r} names no type", f"name one, as in {name}:Q4_K_M, or leave the colon out")
    return name, quant.strip() if colon else None


def _parts(name: str) -> tuple[str, ...]:
    folder, slash, base = name.rpartition("/")
    return tuple(f"{folder}{slash}{part}" for part in split_parts(base))


def _has_quant(name: str, quant: str) -> bool:
    """Tell whether a file name has this type as a whole word: Q4_K is not in Q4_K_M."""
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(quant)}(?![A-Za-z0-9_])", name, re.IGNORECASE) is not None
