"""Reports on work that takes a while: hashing, downloading, loading, compiling."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class ProgressPhase(StrEnum):
    """What is being done."""

    HASH = "hash"
    DOWNLOAD = "download"
    LOAD = "load"
    COMPILE = "compile"


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """How far a piece of work is: `done` of `total` bytes of a file (steps when compiling; total None when unknown)."""

    phase: ProgressPhase
    file: str
    done: int
    total: int | None


Progress = Callable[[ProgressEvent], None]
