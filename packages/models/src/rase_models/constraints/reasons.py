"""What llguidance says went wrong, in words for those who do not see its grammars."""

import re
from collections.abc import Sequence

UNSATISFIABLE = "nothing satisfies it"
TOO_LARGE = "it has too many possibilities to be followed"
_ODD = "it cannot be followed"
_SAME_NAME = "a name may match two of its patterns, which cannot be enforced"
_OVERLAP = "the schemas may have something in common, and have no opposites that can be enforced"

_KNOWN: Sequence[tuple["re.Pattern[str]", str]] = (
    (re.compile(r"Failed to generate regex for \w+ range"), "no number of its range can be written"),
    (re.compile(r"oneOf constraints are not supported"), _OVERLAP),
    (re.compile(r"NoExtensionBias|(?:^|: )Regex is empty: "), UNSATISFIABLE),
    (
        re.compile(
            r"(?:^|: )(?:Unable to determine if regex is empty: |can't determine if patternProperty regexes )"
        ),
        TOO_LARGE,
    ),
    (re.compile(r"(?:^|: )patternProperty regexes .* are not disjoint", re.DOTALL), _SAME_NAME),
    (re.compile(r"^Parser Error: token .* doesn't satisfy the grammar", re.DOTALL), TOO_LARGE),
    (re.compile(r"does not contain a multiple of"), "its multiples cannot be told exactly"),
    (re.compile(r"panick|\bpanic\b|unwrap\(\)|assertion|index out of bounds|backtrace", re.IGNORECASE), _ODD),
    (re.compile(r"recursion|nested too deep|stack overflow", re.IGNORECASE), "it is nested too deeply"),
    (
        re.compile(
            r"too (complex|big)|TooComplex|too many (items|states|rules|expressions)|items; max is|fuel"
            r"|lexer.{0,80}limit",
            re.IGNORECASE,
        ),
        TOO_LARGE,
    ),
)
"""The first that is found in a text says it all.

A token that was let come and does not fit is one at which a matcher had followed as much as it can.
"""

_ENDS = ("<non-verbose/>", "<state>", "; following ", " in regex /", " while processing json-schema:///#")
"""What only tells more of the cause, of which no more is read."""

_SOURCE = re.compile(r"\n *\d+ \| ")
"""Where the lines of a grammar begin, below the cause."""

_END = 1000
"""How much is read of a text's beginning and of its end: what a client wrote may stand between."""

_CUT: Sequence[tuple["re.Pattern[str]", str]] = (
    (re.compile(r"(?:invalid regex|regex parse error:).*\nerror: ", re.DOTALL), "no regex: "),
    (re.compile(r"invalid regex .*\(in regex\): ", re.DOTALL), ""),
    (re.compile(r"^Failed to convert the grammar from GBNF to Lark: "), "no GBNF: "),
    (
        re.compile(r"^no GBNF: Expected (.{1,40}?) at line (\d+), .*['\"] \^ ['\"](.*)['\"]$", re.DOTALL),
        r"no GBNF: line \2: expected \1 before '\3'",
    ),
    (
        re.compile(r"^no GBNF: Unexpected end of input at line (\d+).*", re.DOTALL),
        r"no GBNF: line \1: a text or class has no end",
    ),
    (
        re.compile(r"^no GBNF: Invalid (\\.) escape sequence: .{0,80}? at line (\d+).*", re.DOTALL),
        r"no GBNF: line \2: no such escape: \1",
    ),
    (
        re.compile(r"^(no GBNF: .{1,80}?) at line (\d+), .*['\"] \^ ['\"].*['\"]$", re.DOTALL),
        r"\1, in line \2",
    ),
    (re.compile(r"before ''$"), "before the end"),
    (re.compile(r"No 'root' rule found"), "it has no rule 'root', with which answers begin"),
    (re.compile(r"^no GBNF: Rule ('.*') not found$", re.DOTALL), r"no GBNF: the rule \1 is not there"),
    (re.compile(r"range end must be >= start, got (\(\d+, \d+\))"), r"the range \1 ends before it begins"),
    (
        re.compile(
            r"^.*(?:end of hex escape|lone (?:leading|trailing) surrogate|surrogates not allowed).*$",
            re.DOTALL,
        ),
        "a text has half of a surrogate pair",
    ),
    (re.compile(r"(?:no regex: )?decimal literal invalid"), "a number is too large"),
    (re.compile(r"number out of range at line .*", re.DOTALL), "a number is too large"),
    (re.compile(r"Expected positive integer for '\w+', got [0-9.]+e\+?[0-9]+"), "a number is too large"),
    (re.compile(r"lexer error"), "a character does not belong there"),
    (re.compile(r"error parsing (?:un)?signed integer: .*", re.DOTALL), "a number is too large"),
    (re.compile(r"failed to parse \"?%json\"?: .*", re.DOTALL), "a schema within it is no JSON"),
    (
        re.compile(r"failed to parse \"?%regex\"?: .*", re.DOTALL),
        "%regex is not followed by what it may have",
    ),
    (
        re.compile(r"lookarounds not supported yet; \w*"),
        "anchors and word boundaries are not supported",
    ),
    (re.compile(r"look-around, including look-ahead and look-behind, is"), "look-ahead and look-behind are"),
    (re.compile(r"repetition operator missing expression"), "a repetition has nothing before it to repeat"),
    (re.compile(r"unrecognized flag"), "no such group or flag"),
    (re.compile(r"expected flag but got end of regex"), "a group is not closed"),
    (
        re.compile(r"incomplete escape sequence, reached end of pattern prematurely"),
        "an escape is not complete",
    ),
    (re.compile(r"invalid ([a-z ]{1,40}), the start must be <= the end"), r"a \1 ends before it begins"),
    (re.compile(r"Token range end too large: (\d+)"), r"the vocabulary has no token \1"),
    (re.compile(r"Unknown format: (.*)"), r"no format \1 is known"),
    (re.compile(r"Expected positive integer for '\w+', got (.*)"), r"expected a whole number, found \1"),
    (re.compile(r"^failed to compile JSON schema: "), ""),
    (re.compile(r"^Unsatisfiable schema: (schema is false)?"), f"{UNSATISFIABLE}: "),
    (re.compile(r"json-schema:///"), ""),
)
"""What is taken out of a text, one after the other, and what comes in its place."""

_POSITION = re.compile(r"^(?:at )?(\d+)\((\d+)\): ")


def reason_in(text: str, *, is_own_text: bool = False) -> str:
    """Return in one line what a text of llguidance's says; places in it stay only if it `is_own_text`.

    Takes a few milliseconds whatever the text holds of a client's.
    """
    text = _cause(text)
    for pattern, reason in _KNOWN:
        if pattern.search(text):
            return reason
    position = _POSITION.match(text)
    text = text[position.end() :] if position is not None else text
    for pattern, instead in _CUT:
        text = pattern.sub(instead, text)
    where = f"line {position[1]}, column {position[2]}: " if position is not None and is_own_text else ""
    return where + (" ".join(text.split())[:500].removesuffix(":") or _ODD)


def _cause(text: str) -> str:
    """Return the cause of a text alone, with no more than its beginning and its end."""
    for end in _ENDS:
        text = text.partition(end)[0]
    source = _SOURCE.search(text)
    text = text if source is None else text[: source.start()]
    return text if len(text) <= 2 * _END else f"{text[:_END]}…{text[-_END:]}"
