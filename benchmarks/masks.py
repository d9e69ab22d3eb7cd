"""What holding answers to formats costs: prints a table of the time that each token of an answer takes.

    python benchmarks/masks.py VOCABULARY.gguf [STEP]

Any GGUF has a vocabulary; STEP is how many milliseconds a model with it takes for a token, of which the
share is told. Times are of one thread's CPU, so that other programs change them little. Forced tokens are
those that the rules know to be the next ones, which are computed together with the one before them.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rase_core.constraint import Constraint
from rase_models.chat.tool_calls import CallGrammar, Tool
from rase_models.chat.tool_calls.hermes import HERMES
from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.tokenizers import Tokenizer, load_tokenizer

_WORDS = "The quick brown fox jumps over the lazy dog, and is gone (for 3.5 hours)."
_KINDS: Sequence[tuple[Mapping[str, object], object]] = (
    ({"type": "string"}, _WORDS),
    ({"type": "integer", "minimum": 0, "maximum": 100_000}, 4711),
    ({"type": "number"}, -12.75),
    ({"type": "boolean"}, True),
    ({"enum": ["low", "medium", "high"]}, "medium"),
    ({"type": "array", "items": {"type": "string", "maxLength": 40}}, ["alpha", "beta", "gamma"]),
    ({"type": "string", "format": "date-time"}, "2026-11-30T14:00:00Z"),
    ({"type": ["string", "null"], "pattern": "^[A-Z]{2}-[0-9]{4}$"}, "AB-1234"),
)
_SIZE = 50
_PROPERTIES = {f"property_{i}": _KINDS[i % len(_KINDS)][0] for i in range(_SIZE)}
_VALUES = {f"property_{i}": _KINDS[i % len(_KINDS)][1] for i in range(_SIZE)}
_SCHEMA = {
    "type": "object",
    "properties": _PROPERTIES,
    "required": list(_PROPERTIES),
    "additionalProperties": False,
}
_CALL = {"name": "fill_in", "arguments": _VALUES}


@dataclass(frozen=True)
class Cost:
    """What following one answer took, in seconds."""

    ready: float
    first: float
    tokens: Sequence[float]
    forced: int

    def row(self, name: str, step: float | None) -> str:
        """Return a row of the table; a step is what a model takes for a token, in seconds."""
        ordered, mean = sorted(self.tokens), sum(self.tokens) / len(self.tokens)
        late = ordered[len(ordered) * 99 // 100]
        share = "" if step is None else f"{mean / step:.1%}"
        times = (f"{seconds * 1e6:.0f}" for seconds in (mean, ordered[len(ordered) // 2], late))
        cells = (name, f"{self.ready * 1e3:.0f}", len(self.tokens), self.forced, *times, share)
        return f"| {' | '.join(map(str, cells))} |"


def main(vocabulary: str, step: str | None = None) -> None:
    """Print the table."""
    tokenizer = load_tokenizer(vocabulary)
    compiler = FormatCompiler(tokenizer)
    compiler.compile(ResponseFormat.json_object())  # which reads the vocabulary
    seconds = None if step is None else float(step) / 1e3
    sys.stdout.write("| format | ready, ms | tokens | forced | mean, µs | median | 99 in 100 | of a step |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|---|\n")
    for name, (form, text) in formats().items():
        sys.stdout.write(followed(tokenizer, compiler, form, text).row(name, seconds) + "\n")


def formats() -> Mapping[str, tuple[Callable[[], ResponseFormat], str]]:
    """Return formats by name, each with an answer to it."""
    tool = Tool("fill_in", "", _SCHEMA)
    call = CallGrammar(HERMES, [tool], False, lambda text: None).demanded()
    choices = [f"choice {i} of them, {_WORDS[:30]}" for i in range(1000)]
    return {
        "`json_object`": (ResponseFormat.json_object, json.dumps(_VALUES)),
        f"a schema of {_SIZE} properties": (lambda: ResponseFormat.json_schema(_SCHEMA), json.dumps(_VALUES)),
        "a regular expression": (
            lambda: ResponseFormat.regex(r"([A-Z][a-z]+( [a-z0-9,.()]+)*[.] ?){1,20}"),
            "The quick brown fox jumps over the lazy dog, and is gone. " * 3,
        ),
        "a choice of 1,000": (lambda: ResponseFormat.choice(choices), choices[777]),
        "a call of a tool": (
            lambda: ResponseFormat.lark(call),
            f"<tool_call>\n{json.dumps(_CALL)}\n</tool_call>",
        ),
    }


def followed(
    tokenizer: Tokenizer, compiler: FormatCompiler, form: Callable[[], ResponseFormat], text: str
) -> Cost:
    """Return what it takes to follow a text, whose forced tokens the rules choose themselves."""
    started = time.thread_time()
    compiled = compiler.compile(form())
    ready = time.thread_time() - started
    started = time.thread_time()
    rules = compiled()
    first = time.thread_time() - started
    times, forced, data, at = list[float](), 0, text.encode(), 0
    while at < len(data):
        token, is_forced = next_token(tokenizer, rules, data[at:])
        at += len(tokenizer.detokenizer(continues=True).push(token))
        started = time.thread_time()
        rules.accept(token)
        times.append(time.thread_time() - started)
        forced += is_forced
    return Cost(ready, first, times, forced)


def next_token(tokenizer: Tokenizer, rules: Constraint, rest: bytes) -> tuple[int, bool]:
    """Return the next token of an answer, and whether the rules know it."""
    known = rules.forced()
    if known:
        return known[0], True
    token = tokenizer.encode(rest[:64].decode("utf-8", "ignore"), add_special_tokens=False)[0]
    mask = rules.allowed()
    if mask is None or mask[token]:
        return token, False
    raise SystemExit(f"the answer is not of the format at {rest[:40]!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
