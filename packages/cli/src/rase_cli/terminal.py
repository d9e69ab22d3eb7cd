"""What may be sent to a terminal, and how the standard streams are set up."""

import io
import os
import sys
from typing import TextIO

_HARMLESS = {"\n", "\t"}


def _symbol(code: int) -> str:
    """Return a control character's symbol: U+2400 and on for C0, the replacement character for C1."""
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_VISIBLE = {code: _symbol(code) for code in _CONTROLS if chr(code) not in _HARMLESS}
_ONE_LINE = {code: _symbol(code) for code in _CONTROLS}


def visible(text: str) -> str:
    """Replace the control characters other than line breaks and tabs by visible symbols.

    A model's output or a file's metadata may hold escape sequences that would drive the terminal. Halves of
    surrogate pairs, which stand for bytes that are no text, become escapes such as `\\udcff`.
    """
    return _escaped(text.translate(_VISIBLE))


def one_line(text: str) -> str:
    """Replace all control characters, line breaks and tabs too, by visible symbols."""
    return _escaped(text.translate(_ONE_LINE))


def _escaped(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_terminal(stream: TextIO) -> bool:
    """Tell whether a person reads (or types into) this stream."""
    return not stream.closed and stream.isatty()


def can_write(stream: TextIO, text: str) -> bool:
    """Tell whether a stream has all characters of a text; halves of surrogate pairs none has."""
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_animated(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that can move its cursor."""
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_coloured(stream: TextIO) -> bool:
    """Tell whether to colour this stream: a capable terminal, and the user did not set NO_COLOR."""
    return is_animated(stream) and not os.environ.get("NO_COLOR")


def tolerate_narrow_encodings() -> None:
    """Write `?` for characters that a stream cannot encode, and read undecodable ones as U+FFFD."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def replace_closed_streams() -> None:
    """Give the process nothing to read, and nowhere to write, where its caller closed a standard stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def flush_stdout() -> None:
    """Write what is buffered for stdout, or give it up when its reader has gone away or its disk is full."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard_stdout()


def _discard_stdout() -> None:
    """Send what is still buffered to nowhere, or Python would complain at its end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, io.UnsupportedOperation):
        return
