"""What llguidance says went wrong, in words for those who do not see its grammars."""

import re
from collections.abc import Sequence

UNSATISFIABLE = "nothing satisfies it"
TOO_LARGE = "it has too many possibilities to be followed"
_ODD = "it cannot be followed"
_OVERLAP = "the schemas may have something in common, and have no opposites that can be enforced"

_KNOWN: Sequence[tuple["re.Pattern[str]", str]] = (
    (re.compile(r"Failed to generate regex for \w+ range"), "no number of its range can be written"),
    (re.compile(r"oneOf constraints are not supported"), _OVERLAP),
    (re.compile(r"NoExtensionBias"), UNSATISFIABLE),
    (re.compile(r"does not contain a multiple of"), "its multiples cannot be told exactly"),
    (re.compile(r"panick|\bpanic\b|unwrap\(\)|assertion|index out of bounds|backtrace", re.IGNORECASE), _ODD),
    (re.compile(r"recursion|nested too deep|stack overflow", re.IGNORECASE), "it is nested too deeply"),
    (
        re.compile(
            r"too (complex|big)|TooComplex|too many (items|states|rules|expressions)|items; max is|fuel"
            r"|lexer.*limit",
            re.IGNORECASE,
        ),
        TOO_LARGE,
    ),
)
"""The first that is found in a text says it all."""

_CUT: Sequence[tuple["re.Pattern[str]", str]] = (
    (re.compile(r"<non-verbose/>.*|<state>.*", re.DOTALL), ""),
    (re.compile(r"\n\s*\d+ \| .*", re.DOTALL), ""),
    (re.compile(r"; following .*", re.DOTALL), ""),
    (re.compile(r"regex parse error:.*\nerror: ", re.DOTALL), "no regex: "),
    (re.compile(r"invalid regex .*\(in regex\): ", re.DOTALL), ""),
    (re.compile(r"^Failed to convert the grammar from GBNF to Lark: "), "no GBNF: "),
    (re.compile(r"^failed to compile JSON schema: "), ""),
    (re.compile(r" while processing json-schema:///#.*", re.DOTALL), ""),
    (re.compile(r"^Unsatisfiable schema: (schema is false)?"), f"{UNSATISFIABLE}: "),
    (re.compile(r"json-schema:///"), ""),
)
"""What is taken out of a text, one after the other, and what comes in its place."""

_POSITION = re.compile(r"^(?:at )?(\d+)\((\d+)\): ")


def reason_in(text: str, *, is_own_text: bool = False) -> str:
    """Return in one line what a text of llguidance's says; places in it stay only if it `is_own_text`."""
    for pattern, reason in _KNOWN:
        if pattern.search(text.partition("<non-verbose/>")[0]):
            return reason
    position = _POSITION.match(text)
    text = text[position.end() :] if position is not None else text
    for pattern, instead in _CUT:
        text = pattern.sub(instead, text)
    where = f"line {position[1]}, column {position[2]}: " if position is not None and is_own_text else ""
    return where + (" ".join(text.split())[:500].removesuffix(":") or _ODD)
