"""Errors of the system, in plain words."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class OutputLost(OSError):
    """Standard output cannot be written."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"standard output cannot be written: {reason}")


@contextmanager
def writing_output() -> Iterator[None]:
    """Raise OutputLost for what keeps standard output from being written, other than that nobody reads it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(reason_of(error)) from error


def reason_of(error: OSError) -> str:
    """Return what went wrong, without number and file."""
    if isinstance(error, IsADirectoryError):
        return "is a folder"
    return error.strerror or str(error)


def describe(error: OSError) -> str:
    """Return what went wrong, and with which file if the system names it."""
    if error.filename is None:
        return reason_of(error)
    return f"{Path(str(error.filename))}: {reason_of(error)}"
