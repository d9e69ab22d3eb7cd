"""What becomes of JSON schemas whose valid and invalid instances are known, for tests and measurements."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from rase_core.errors import ConstraintFailure, UnenforceableFormat

from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.gguf import open_gguf
from rase_models.testing import write_tiny_model
from rase_models.tokenizers import Tokenizer, tokenizer_from_gguf


@dataclass(frozen=True, slots=True)
class SchemaCase:
    """A schema, what it admits, and what it does not."""

    name: str
    schema: dict[str, object]
    valid: Sequence[object]
    invalid: Sequence[object]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the case of a file in MaskBench's form: `schema`, and `tests` with `data` and `valid`."""
        file = json.loads(path.read_text("utf-8"))
        tests = file.get("tests", [])
        valid, invalid = (
            [test["data"] for test in tests if bool(test["valid"]) is side] for side in (True, False)
        )
        return cls(path.stem, file["schema"], valid, invalid)


class Outcome(StrEnum):
    """What becomes of a schema, judged by its instances."""

    EXACT = "exact"
    NARROW = "narrow"
    REFUSED = "refused"
    UNSOUND = "unsound"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, why a schema is refused, and the seconds of this thread's CPU that making it ready took."""

    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0


class SchemaJudge:
    """Tells what a grammar makes of texts, byte by byte, so that no token hides a place where it errs."""

    def __init__(self) -> None:
        self._tokenizer = _bytewise()
        self._compiler = FormatCompiler(self._tokenizer)

    def verdict(self, case: SchemaCase) -> Verdict:
        """Return what becomes of a schema: something invalid that is let pass makes it unsound."""
        started = time.thread_time()
        try:
            form = ResponseFormat.json_schema(case.schema)
            self._compiler.compile(form)
            seconds = time.thread_time() - started
            return Verdict(self._outcome(form, case), seconds=seconds)
        except (UnenforceableFormat, ConstraintFailure) as error:
            return Verdict(Outcome.REFUSED, error.reason, time.thread_time() - started)

    def _outcome(self, form: ResponseFormat, case: SchemaCase) -> Outcome:
        if any(self.admits(form, value) for value in case.invalid):
            return Outcome.UNSOUND
        return Outcome.EXACT if all(self.admits(form, value) for value in case.valid) else Outcome.NARROW

    def admits(self, form: ResponseFormat, value: object) -> bool:
        """Whether a value, its properties in this order, may be the answer."""
        return self.admits_text(form, json.dumps(value, ensure_ascii=False))

    def admits_text(self, form: ResponseFormat, text: str) -> bool:
        """Whether a text may be the answer; raises UnenforceableFormat."""
        rules = self._compiler.compile(form)()
        try:
            for token in self._tokenizer.encode(text, add_special_tokens=False, parse_special=False):
                if not rules.allowed()[token]:
                    return False
                rules.accept(token)
        except ConstraintFailure:
            return False
        return rules.may_end


def _bytewise() -> Tokenizer:
    """Return a tokenizer whose tokens are the bytes."""
    with TemporaryDirectory() as folder:
        return tokenizer_from_gguf(open_gguf(write_tiny_model(Path(folder) / "tiny.gguf")))
