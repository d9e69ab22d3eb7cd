"""How many files and connections this process may have open."""

from contextlib import suppress


def open_as_many_as_may_be() -> None:
    """Raise the limit of open files as far as this process may; to be called once, by a program.

    Systems begin with a low one, often 1,024 or 256, for programs that use `select`. Does nothing on Windows.
    """
    try:
        import resource
    except ImportError:
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):  # macOS calls its limit infinite, and takes no more than another
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
