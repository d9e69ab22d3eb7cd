"""The results of a batch in a file, a line each; what is there already is not done again."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from rase_core.errors import EngineError
from rase_core.lock import FileLock
from rase_core.model_file import irregularity

from rase_models.batch.record import Record, is_final

_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""What JSON leaves as it is, and many programs take for the end of a line, as JSON may write it, too."""


class ForeignOutput(EngineError):
    """The file for the results has lines that are none."""

    def __init__(self, path: Path, number: int) -> None:
        super().__init__(
            f"{path}, line {number}: no result of a batch", "choose another file for the results"
        )
        self.path, self.number = path, number


class OutputInUse(EngineError):
    """Another process writes to the file for the results."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: another batch writes to it", "wait for it, or choose another file")
        self.path = path


class UnusableOutput(EngineError):
    """Results cannot be kept in what is to be the file for them: why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}", "choose another file for the results")
        self.path, self.reason = path, reason


class Journal:
    """A file to which results are appended, each whole: one cut off by a kill is taken away, and done again.

    So is every line that is no final result (`is_final`), as soon as the file is opened.

    Attributes:
        done: the custom_ids of tasks that have a final result.
        failed: those of them whose result is an error.

    Raises ForeignOutput, OutputInUse, UnusableOutput, OSError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=0.0)
        self._file: BinaryIO | None = None
        self.done: set[str] = set()
        self.failed: set[str] = set()

    def __enter__(self) -> Self:
        if self._path.exists() and (reason := irregularity(self._path.stat().st_mode)):
            raise UnusableOutput(self._path, reason)  # a device or a pipe might be read without end
        if not self._path.parent.is_dir():
            raise UnusableOutput(self._path, f"there is no folder {self._path.parent}")
        try:
            self._lock.__enter__()
        except TimeoutError as error:
            raise OutputInUse(self._path) from error
        try:
            self._tidy()
            self._file = self._open()
            self._file.seek(0, os.SEEK_END)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._file is not None:
                with _named(self._path):
                    self._file.close()
        finally:
            self._lock.__exit__(kind, error, trace)

    def write(self, record: Record) -> None:
        """Append a result, so that it is there even if this process is killed the next moment."""
        if self._file is None:
            raise ValueError("the journal is not open")
        line = json.dumps(record, ensure_ascii=False).translate(_LINE_ENDS)
        with _named(self._path):
            self._file.write(line.encode() + b"\n")
            self._file.flush()

    def _open(self) -> BinaryIO:
        return os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")

    def _tidy(self) -> None:
        """Note what is done, and take away what is to be done again."""
        with self._open() as file:
            end = again = 0
            for line, record in self._records(file):
                end += len(line)
                again += not self._is_done(record)
            file.truncate(end)
        if again:
            self._leave_out()

    def _leave_out(self) -> None:
        """Take away the lines that are not final: all of them or, if this is cut short, none."""
        path = self._path.resolve()  # where it is a link, it stays one
        rest = path.with_name(f".{path.name}.rest")
        with path.open("rb") as before, rest.open("wb") as file:
            file.writelines(line for line, record in self._records(before) if is_final(record))
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(path, rest)
        rest.replace(path)

    def _records(self, file: BinaryIO) -> Iterator[tuple[bytes, Record]]:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            yield line, self._parsed(line, number)

    def _parsed(self, line: bytes, number: int) -> Record:
        try:
            record: Record = json.loads(line)
            is_final(record)
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ForeignOutput(self._path, number) from None
        return record

    def _is_done(self, record: Record) -> bool:
        if not is_final(record):
            return False
        self.done.add(str(record["custom_id"]))
        if record.get("error") is not None:
            self.failed.add(str(record["custom_id"]))
        return True


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in errors of the system, which names none where it is open already."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
