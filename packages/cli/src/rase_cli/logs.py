"""What the libraries log, shown as the command line's own notes."""

import logging

from rase_cli.output import note

_COLOURS = {logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "red"}


class NoteHandler(logging.Handler):
    """Writes each different warning or error to stderr once, with its traceback if it has one."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter("%(message)s"))
        self._seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record unless the same text was shown before."""
        text = f"{record.levelname.lower()}: {self.format(record)}"
        if text not in self._seen:
            self._seen.add(text)
            note(text, _COLOURS.get(record.levelno))


def show_logs() -> None:
    """Let everything that is logged go through a NoteHandler, unless the host has set logging up."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(NoteHandler())
