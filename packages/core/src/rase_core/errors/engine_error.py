"""What every error is."""

_MOST_SHOWN = 120


class EngineError(Exception):
    """Base of every error that rase raises on purpose."""

    def __init__(self, message: str, advice: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice


def shown(value: object) -> str:
    """Return a value as Python writes it, cut to a line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # of thousands of digits, or nested as deeply
        return f"a very large {type(value).__name__}"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
