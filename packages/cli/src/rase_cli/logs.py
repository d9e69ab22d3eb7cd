"""What the libraries log, shown as the command line's own notes, or as the log of a server."""

import json
import logging
from datetime import UTC, datetime

from rase_cli.output import note
from rase_cli.terminal import one_line

_COLOURS = {logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "red"}

OWN_LOGGERS = ("rase_api", "rase_cli", "rase_core", "rase_models")

LEVELS = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}


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


class ServerHandler(logging.Handler):
    """Writes everything to stderr."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter() if as_json else TextFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        note(self.format(record), _COLOURS.get(record.levelno))


class TextFormatter(logging.Formatter):
    """Lines of requests as they are, all else with its level before it."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        text = super().format(record)
        return text if hasattr(record, "request") else f"{record.levelname.lower()}: {text}"


class JsonFormatter(logging.Formatter):
    """One line of JSON for each record; those of requests are JSON already."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        if hasattr(record, "request"):
            return record.getMessage()
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": super().format(record),
        }
        return one_line(json.dumps(facts))


def show_logs() -> None:
    """Let everything that is logged go through a NoteHandler, unless the host has set logging up."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(NoteHandler())


def show_server_logs(level: str, *, as_json: bool) -> None:
    """Log as a server does, from a level of LEVELS on, unless the host has set logging up.

    Other packages are only heard from warnings on, or when debugging.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    root.addHandler(ServerHandler(as_json=as_json))
    chosen = LEVELS[level]
    root.setLevel(chosen if chosen == logging.DEBUG else max(chosen, logging.WARNING))
    for name in OWN_LOGGERS:
        logging.getLogger(name).setLevel(chosen)
