"""What the event loop says when this process may open no more files, and so can take no more connections."""

import asyncio
import errno
import logging
import math
import time

from rase_core.open_files import is_full

NO_MEMORY = (errno.ENOBUFS, errno.ENOMEM)
SECONDS = 60

logger = logging.getLogger(__name__)


class AcceptFaults:
    """An exception handler of an event loop that tells once a minute that no connection can be taken.

    The loop's own tells it for each place in its backlog, with a traceback: tens of thousands a second, which
    fill the disk of the log and leave no time to answer those who are connected.
    """

    def __init__(self) -> None:
        self._told = -math.inf

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Hear of a fault; what is another one goes the loop's usual way."""
        error = context.get("exception")
        if isinstance(error, OSError) and _has_no_place(error) and "socket" in context:
            self._tell(error)
        elif not _is_of_closed_listener(context):
            loop.default_exception_handler(context)

    def _tell(self, error: OSError) -> None:
        now = time.monotonic()
        if now - self._told >= SECONDS:
            self._told = now
            logger.warning("no more connections can be taken for now: %s", error.strerror)


def _has_no_place(error: OSError) -> bool:
    return is_full(error) or error.errno in NO_MEMORY


def _is_of_closed_listener(context: dict[str, object]) -> bool:
    """Tell whether the loop wanted to accept again, as it does a second later, and the server has ended."""
    is_closed = isinstance(context.get("exception"), ValueError)
    return is_closed and "_start_serving" in str(context.get("message"))
