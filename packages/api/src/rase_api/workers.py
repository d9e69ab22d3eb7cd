"""Whether this process is one of several that serve together."""

import sys
from types import FrameType

from rase_api.errors import SeveralWorkers

_SUPERVISED = ("uvicorn._subprocess", "config")
"""The module in which a worker of uvicorn begins, and the name that its setup has there."""


def refuse_workers() -> None:
    """Raise SeveralWorkers in a process that uvicorn started as one of several workers."""
    module, name = _SUPERVISED
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == module:
            count = getattr(frame.f_locals.get(name), "workers", 1)
            if isinstance(count, int) and count > 1:
                raise SeveralWorkers(count)
        frame = frame.f_back
