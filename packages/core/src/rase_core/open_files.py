"""When no more files can be opened: a state of the process or the machine, and no fault of the file's."""

import errno

FULL = (errno.EMFILE, errno.ENFILE)


def is_full(error: BaseException) -> bool:
    """Tell whether the system had no place left for another open file."""
    return isinstance(error, OSError) and error.errno in FULL
