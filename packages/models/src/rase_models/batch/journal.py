"""The results of a batch in a file, a line each; what is there already is not done again."""

import json
import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from rase_core.errors import EngineError
from rase_core.lock import FileLock
from rase_core.model_file import irregularity

from rase_models.batch.record import Record


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

    Attributes:
        done: the custom_ids of tasks, and the numbers of other lines, that have a result.

    Raises ForeignOutput, OutputInUse, UnusableOutput, OSError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=0.0)
        self._file: BinaryIO | None = None
        self.done: set[str | int] = set()

    def __enter__(self) -> Self:
        if self._path.exists() and (reason := irregularity(self._path.stat().st_mode)):
            raise UnusableOutput(self._path, reason)  # a device or a pipe might be read without end
        try:
            self._lock.__enter__()
        except TimeoutError as error:
            raise OutputInUse(self._path) from error
        try:
            self._file = os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
            self._file.seek(self._read(self._file))
            self._file.truncate()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.__exit__(kind, error, trace)

    def write(self, record: Record) -> None:
        """Append a result, so that it is there even if this process is killed the next moment."""
        if self._file is None:
            raise ValueError("the journal is not open")
        self._file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        self._file.flush()

    def _read(self, file: BinaryIO) -> int:
        """Note what is done, and return where the whole lines end."""
        end = 0
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            self.done.add(self._key(line, number))
            end += len(line)
        return end

    def _key(self, line: bytes, number: int) -> str | int:
        try:
            record = json.loads(line)
            return key_of(record["custom_id"], record["line"], is_task=record["tries"] > 0)
        except (ValueError, TypeError, KeyError):
            raise ForeignOutput(self._path, number) from None


def key_of(custom_id: str | None, line: int, *, is_task: bool) -> str | int:
    """Return what a line of the tasks is known by."""
    return custom_id if is_task and custom_id is not None else line
