"""JSON Schema's own test suite, byte by byte: what is not refused lets nothing pass that is invalid.

Benchmarks of the same form, a file for each schema, are tried where RASE_SCHEMAS names their folder.
"""

import json
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from rase_models.testing_schemas import Outcome, SchemaCase, SchemaJudge

SUITE = json.loads((Path(__file__).parent / "data" / "json_schema_suite.json").read_text("utf-8"))["groups"]
MOST = int(os.environ.get("RASE_SCHEMAS_MOST", "1000"))


@pytest.fixture(scope="module")
def judge() -> SchemaJudge:
    return SchemaJudge()


def suite() -> Iterator[SchemaCase]:
    for name, cases in SUITE.items():
        for i, case in enumerate(cases):
            yield SchemaCase(f"{name}-{i}", case["schema"], case["valid"], case["invalid"])


def bench(folder: str) -> Iterator[SchemaCase]:
    return map(SchemaCase.read, sorted(Path(folder).glob("*.json")))


def outcomes(judge: SchemaJudge, cases: Iterable[SchemaCase]) -> dict[Outcome, list[str]]:
    found: dict[Outcome, list[str]] = {outcome: [] for outcome in Outcome}
    for case in cases:
        found[judge.verdict(case).outcome].append(case.name)
    return found


def test_the_suite_of_json_schema_is_kept_to_or_refused(judge: SchemaJudge) -> None:
    found = outcomes(judge, suite())
    assert found[Outcome.UNSOUND] == []
    assert len(found[Outcome.EXACT]) >= 257
    assert len(found[Outcome.NARROW]) <= 17  # properties in another order than the schema's, and 1.0 for 1


@pytest.mark.skipif("RASE_SCHEMAS" not in os.environ, reason="RASE_SCHEMAS names no folder of schemas")
def test_a_bench_of_real_schemas_is_kept_to_or_refused(judge: SchemaJudge) -> None:
    found = outcomes(judge, islice(bench(os.environ["RASE_SCHEMAS"]), MOST))
    assert found[Outcome.UNSOUND] == []
