"""What becomes of real JSON schemas: prints a table with a row for each set, and why schemas are refused.

    python benchmarks/schemas.py FOLDER [PART] [SEED]

FOLDER has a file for each schema with instances that are valid or are not, named SET---NAME.json, as
`maskbench/data` of github.com/guidance-ai/jsonschemabench has. One schema in PART of each set is judged,
drawn by a random number generator that begins with SEED.
"""

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path

from rase_models.testing_schemas import Outcome, SchemaCase, SchemaJudge, Verdict

BENCH = (
    *("Github_easy", "Github_hard", "Github_medium", "Github_trivial", "Github_ultra", "Glaiveai2K"),
    *("JsonSchemaStore", "Kubernetes", "Snowplow", "WashingtonPost"),
)
"""The sets of JSONSchemaBench; MaskBench has further ones."""

_KEYWORD = re.compile(r"'(\$?\w+)' at ")
Verdicts = Mapping[str, Verdict]


def main(folder: str, part: str = "9", seed: str = "1") -> None:
    """Print the table and the reasons."""
    judge = SchemaJudge()
    rows: dict[str, Verdicts] = {}
    for name, paths in drawn(Path(folder), int(part), int(seed)):
        rows[name] = {path.stem: judge.verdict(SchemaCase.read(path)) for path in paths}
        write(row(name, list(rows[name].values())))
    whole = {path: verdict for verdicts in rows.values() for path, verdict in verdicts.items()}
    write(row("**all**", list(whole.values())))
    write_times([verdict.seconds for verdict in whole.values()])
    write_reasons(whole)


def drawn(folder: Path, part: int, seed: int) -> Iterator[tuple[str, Sequence[Path]]]:
    """Yield the files that are judged of each set."""
    for name in BENCH:
        paths = sorted(folder.glob(f"{name}---*.json"))
        yield name, sorted(random.Random(seed).sample(paths, ceil(len(paths) / part)))


def row(name: str, verdicts: Sequence[Verdict]) -> str:
    """Return a row: the set, its schemas, and how many come to each outcome."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    cells = [name, len(verdicts), *(counts[outcome] for outcome in Outcome)]
    return f"| {' | '.join(map(str, cells))} |"


def write_times(seconds: Sequence[float]) -> None:
    """Print how long schemas take to be made ready: the middle, the longest of 99 in 100, and of all."""
    ordered = sorted(seconds)
    middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    times = f"{middle * 1e3:.1f} ms, 99 in 100 in {late * 1e3:.0f} ms, all in {ordered[-1]:.2f} s"
    write(f"\nmade ready in {times}\n")


def write_reasons(verdicts: Verdicts) -> None:
    """Print the keywords that schemas are refused for, and the names of those that are no exact ones."""
    refused = [verdict.reason for verdict in verdicts.values() if verdict.outcome is Outcome.REFUSED]
    for keyword, count in Counter(map(keyword_in, refused)).most_common():
        write(f"{count:4} {keyword}")
    for name, verdict in verdicts.items():
        if verdict.outcome is not Outcome.EXACT:
            write(f"{verdict.outcome}: {name} {verdict.reason[:200]}")


def keyword_in(reason: str) -> str:
    """Return the keyword that a reason names, else its beginning."""
    found = _KEYWORD.search(reason)
    return reason[:60] if found is None else found[1]


def write(line: str) -> None:
    """Print a line at once, since judging takes minutes."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
