"""How a failure ends the program: what is printed, and with which exit code."""

import traceback
from typing import IO, Any

import click
from rase_core.errors import (
    BackendUnavailable,
    Cancelled,
    EngineError,
    HubError,
    IntegrityMismatch,
    InvalidAlias,
    InvalidGguf,
    InvalidManifest,
    InvalidModelId,
    InvalidParameter,
    ModelExists,
    ModelFileNotFound,
    ModelNotFound,
    UnsupportedFormat,
)

from rase_cli.output import note
from rase_cli.running_server import ServerNotRunning
from rase_cli.system_errors import describe
from rase_cli.terminal import flush_stdout

ERROR, USAGE, NOT_FOUND, DAMAGED, UNAVAILABLE, HUB, INTERNAL = 1, 2, 3, 4, 5, 6, 70
INTERRUPTED, BROKEN_PIPE = 130, 141

EXIT_CODES: dict[type[BaseException], int] = {
    InvalidModelId: USAGE,
    InvalidAlias: USAGE,
    InvalidParameter: USAGE,
    ModelExists: USAGE,
    ModelNotFound: NOT_FOUND,
    ModelFileNotFound: NOT_FOUND,
    IntegrityMismatch: DAMAGED,
    InvalidGguf: DAMAGED,
    InvalidManifest: DAMAGED,
    UnsupportedFormat: DAMAGED,
    BackendUnavailable: UNAVAILABLE,
    ServerNotRunning: UNAVAILABLE,
    HubError: HUB,
    Cancelled: INTERRUPTED,
    EngineError: ERROR,
    MemoryError: ERROR,
    KeyboardInterrupt: INTERRUPTED,
    BrokenPipeError: BROKEN_PIPE,
    FileNotFoundError: NOT_FOUND,
    OSError: ERROR,
}
"""The nearest class of the error's ancestry counts; anything else is a defect of rase: INTERNAL."""


class Failure(click.ClickException):
    """An error on its way to the user; click shows it and exits with its code."""

    exit_code: int  # type: ignore[misc]  # click reads it from the instance, and declares it for the class

    def __init__(self, error: BaseException, *, debug: bool) -> None:
        super().__init__(str(error))
        self.error, self.debug, self.exit_code = error, debug, exit_code(error)

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message and the advice to stderr, after the traceback when debugging."""
        flush_stdout()
        if self.exit_code == BROKEN_PIPE:
            return
        if self.debug:
            note("".join(traceback.format_exception(self.error)).rstrip(), None)
        report(self.error)


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error by the table."""
    return next((EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES), INTERNAL)


def report(error: BaseException) -> None:
    """Print what happened and what to do about it to stderr."""
    message, advice = _describe(error)
    flush_stdout()
    note(f"Error: {message}", "red")
    if advice:
        note(advice, None)


def _describe(error: BaseException) -> tuple[str, str | None]:
    if isinstance(error, EngineError):
        return error.message, error.advice
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", None
    if isinstance(error, OSError):
        return describe(error), None
    if isinstance(error, MemoryError):
        return "not enough memory", "close other programs, or use a smaller model or context"
    return (
        f"unexpected {type(error).__name__}: {error}",
        "this is a defect: run again with --debug and report it",
    )
