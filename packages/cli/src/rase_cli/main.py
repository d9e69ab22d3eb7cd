"""Where the process of `rase` begins."""

import sys

_INTERRUPTED = 130


def main() -> None:
    """Run `rase` with the process's arguments and exit; an interrupt ends it quietly at any time."""
    try:
        from rase_cli.program import run

        code = run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("Error: interrupted\n")
        code = _INTERRUPTED
    sys.exit(code)
