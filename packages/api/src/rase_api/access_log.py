"""The access log: one line for each request, on the logger `rase_api.access`."""

import json
import logging
from datetime import UTC, datetime

from rase_api.errors import clipped
from rase_api.record import Record

LONGEST_PATH = 300

logger = logging.getLogger("rase_api.access")


def write(record: Record, *, as_json: bool) -> None:
    """Log a finished request, as JSON or as `key=value`; the fields are also the log record's `request`."""
    if not logger.isEnabledFor(logging.INFO):
        return
    facts = _facts(record)
    logger.info("%s", json.dumps(facts) if as_json else _line(facts), extra={"request": facts})


def _facts(record: Record) -> dict[str, object]:
    facts = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "id": record.id,
        "method": record.method,
        "path": clipped(record.path, LONGEST_PATH),
        "status": record.status,
        "outcome": record.outcome.value,
        "ms": _milliseconds(record.seconds),
        "model": record.model,
        "stream": record.is_streamed or None,
        "prompt_tokens": record.prompt_tokens or None,
        "cached_tokens": record.cached_tokens or None,
        "completion_tokens": record.completion_tokens or None,
        "first_text_ms": None if record.first_text is None else _milliseconds(record.first_text),
        "error": record.error,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _line(facts: dict[str, object]) -> str:
    return " ".join(f"{key}={_word(value)}" for key, value in facts.items())


def _word(value: object) -> str:
    """Write a value without spaces or line ends, so that no client can write lines of its own."""
    text = str(value)
    plain = text.isascii() and text.isprintable() and not set(text) & {" ", '"', "="}
    return text if plain else json.dumps(text)


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)
