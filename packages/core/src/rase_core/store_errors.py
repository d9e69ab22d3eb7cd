"""What the system says of a store's files, as errors that say what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rase_core.errors import StoreError, TooManyOpenFiles
from rase_core.lock import LockHeld
from rase_core.open_files import is_full

_ADVICE = {
    errno.ENOSPC: "free some space on that disk, or choose another store with --store or RASE_STORE",
    errno.EDQUOT: "free some of your quota, or choose another store with --store or RASE_STORE",
}


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Raise StoreError, with the path, for what the system refuses and for a lock that another one holds.

    TooManyOpenFiles where it only may open no more files.
    """
    try:
        yield
    except LockHeld as error:
        raise StoreError(f"the model store is in use: {error}", "try again when that is done") from error
    except OSError as error:
        place = error.filename or path
        if is_full(error):
            raise TooManyOpenFiles(Path(place)) from error
        advice = _ADVICE.get(error.errno or 0, "choose a store you can write to with --store or RASE_STORE")
        raise StoreError(f"the model store cannot be used: {place}: {_reason(error)}", advice) from error


def _reason(error: OSError) -> str:
    """Return what the system says; of a folder that cannot be made it would say that it is there."""
    return "is no folder" if isinstance(error, FileExistsError) else error.strerror or str(error)
