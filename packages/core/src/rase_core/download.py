"""Downloading one large file, going on where an earlier attempt ended."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from rase_core.errors import HubError
from rase_core.hub_errors import transport_error

_ATTEMPTS = 5
_PAUSE_SECONDS = 0.5
_TIMEOUT_SECONDS = 30.0
_PARTIAL_CONTENT = 206

OnBytes = Callable[[int], None]


def download_file(url: str, partial: Path, size: int, on_bytes: OnBytes) -> None:
    """Fill `partial` up to `size` bytes from a URL of the hub; `on_bytes` hears how many there are.

    What the file holds already is taken for the beginning. A connection that breaks is taken up again, until
    five attempts in a row brought nothing. Raises HubError for that and for a disk without room, OSError when
    the file cannot be written, and huggingface_hub's errors for what the server refuses.
    """
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.touch()
    with partial.open("r+b") as file:
        if file.seek(0, 2) > size:
            _empty(file)
        _check_room(partial, size - file.tell())
        on_bytes(file.tell())
        _fill(url, file, size, on_bytes)


def _fill(url: str, file: BinaryIO, size: int, on_bytes: OnBytes) -> None:
    failures = 0
    while (before := file.tell()) < size:
        reason = _attempt(url, file, size, on_bytes)
        failures = 0 if file.tell() > before else failures + 1
        if failures == _ATTEMPTS:
            done = f"{url}: the download stopped after {before} of {size} bytes: {reason}"
            raise HubError(done, "try again: it goes on from there")


def _attempt(url: str, file: BinaryIO, size: int, on_bytes: OnBytes) -> str:
    """Download what is missing, and return why the stream ended."""
    try:
        _stream(url, file, size, on_bytes)
    except transport_error() as error:
        if hasattr(error, "response"):  # an answer, not a broken connection
            raise
        time.sleep(_PAUSE_SECONDS)
        return str(error) or type(error).__name__
    return "the server sends no more"


def _stream(url: str, file: BinaryIO, size: int, on_bytes: OnBytes) -> None:
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
            on_bytes(file.tell())


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
