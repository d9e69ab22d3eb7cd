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
    """How far a piece of work is.

    `done` and `total` are bytes of the file, or steps when compiling; `total` is None when it is not known.
    """

    phase: ProgressPhase
    file: str
    done: int
    total: int | None


Progress = Callable[[ProgressEvent], None]
