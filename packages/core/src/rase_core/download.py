"""Downloading one large file, going on where an earlier attempt ended."""

import shutil
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO

from rase_core.errors import HubError
from rase_core.hub_errors import transport_error

_ATTEMPTS = 8
_PAUSE_SECONDS = 0.5
_TIMEOUT_SECONDS = 30.0
_PARTIAL_CONTENT = 206
_PASSING = (408, 425, 429)  # timed out, too early, too many requests
_SERVERS_FAULT = 500

Pause = Callable[[float], None]


def download_file(url: str, partial: Path, size: int, pause: Pause = time.sleep) -> Iterator[int]:
    """Fill `partial` up to `size` bytes from a URL of the hub; yields how many there are, waiting too.

    What the file holds already is taken for the beginning. A connection that breaks and a server that is
    overloaded are tried again after ever longer pauses, until eight attempts in a row, in about a minute,
    brought nothing. Raises HubError for that and for a disk without room, OSError when the file cannot be
    written, and huggingface_hub's errors for what the server refuses.
    """
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.touch()
    with partial.open("r+b") as file:
        if file.seek(0, 2) > size:
            _empty(file)
        _check_room(partial, size - file.tell())
        yield file.tell()
        yield from _fill(url, file, size, pause)


def _fill(url: str, file: BinaryIO, size: int, pause: Pause) -> Iterator[int]:
    failures = 0
    while (before := file.tell()) < size:
        reason = yield from _attempt(url, file, size)
        failures = 0 if file.tell() > before else failures + 1
        if failures == _ATTEMPTS:
            done = f"{url}: the download stopped after {before} of {size} bytes: {reason}"
            raise HubError(done, "try again: it goes on from there")
        for _ in range(2 ** max(failures - 1, 0) if file.tell() < size else 0):
            pause(_PAUSE_SECONDS)
            yield file.tell()


def _attempt(url: str, file: BinaryIO, size: int) -> Generator[int, None, str]:
    """Download what is missing, and return why the stream ended."""
    try:
        yield from _stream(url, file, size)
    except transport_error() as error:
        if not _may_pass(error):
            raise
        return str(error) or type(error).__name__
    return "the server sends no more"


def _may_pass(error: Exception) -> bool:
    """Tell whether a later attempt may succeed: a broken connection or a busy server, not a refusal."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status is None or status in _PASSING or status >= _SERVERS_FAULT


def _stream(url: str, file: BinaryIO, size: int) -> Iterator[int]:
    from huggingface_hub.utils import (  # type: ignore[attr-defined]
        build_hf_headers,
        get_session,
        hf_raise_for_status,
    )

    headers = build_hf_headers() | {"Accept-Encoding": "identity", "Range": f"bytes={file.tell()}-"}
    with get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT_SECONDS) as response:
        hf_raise_for_status(response)
        if response.status_code != _PARTIAL_CONTENT:
            _empty(file)
        for chunk in response.iter_bytes():
            if file.tell() + len(chunk) > size:
                _empty(file)
                raise HubError(f"{url} has more than the {size} bytes that the hub names", "try again")
            file.write(chunk)
            yield file.tell()


def _empty(file: BinaryIO) -> None:
    file.seek(0)
    file.truncate()


def _check_room(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise HubError(
            f"the disk is full: {path.parent} has {free} bytes free, the download needs {needed} more",
            "free some space, or set HF_HOME to a folder on another disk",
        )
