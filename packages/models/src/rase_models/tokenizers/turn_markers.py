"""Tokens that have the form of those that divide a conversation."""

import re

_FORM = re.compile(r"<[|｜].+>|<.+[|｜]>")


def is_turn_marker(token: str) -> bool:
    """Whether a token is written as `<|user|>`, `<|turn>`, `<turn|>` or `<｜User｜>` are.

    Many files have such ones, or all of theirs, as user-defined tokens.
    """
    return _FORM.fullmatch(token) is not None
