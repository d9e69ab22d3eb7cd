"""Measures rase beside llama.cpp and writes a report.

    uv run python benchmarks/run.py --models FOLDER --llamacpp-python PYTHON --out REPORT.md

FOLDER holds the models by the names in `cases.py`; those that are missing are left out. PYTHON is an
interpreter with llama-cpp-python, built for this machine (CMAKE_ARGS=-DGGML_NATIVE=ON pip install
--no-binary llama-cpp-python llama-cpp-python). Nothing else should run meanwhile.
"""

import argparse
import subprocess
import sys
from datetime import date
from pathlib import Path

import plot
from engines import Engines
from report import machine_line, table
from rows import Row
from sections import SECTIONS


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, required=True, help="folder of the models")
    parser.add_argument("--llamacpp-python", help="interpreter with llama-cpp-python")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="medians are over so many")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument(
        "--plot", action="store_true", help="draw speeds against size, threads, context, batch"
    )
    parser.add_argument("--out", type=Path, default=Path("report.md"))
    return parser.parse_args()


def llama_version(python: str | None) -> str:
    """Say which llama.cpp was measured."""
    if python is None:
        return "llama.cpp was not measured."
    code = "import llama_cpp as l; print(l.__version__, l.llama_print_system_info().decode(), sep='\\n')"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    version, system = done.stdout.strip().split("\n", 1)
    return f"llama.cpp as in llama-cpp-python {version}, built for this machine ({system.strip()})."


def main() -> None:
    """Measure, show rows as they come, and write the report."""
    options = parse()
    engines = Engines(options.llamacpp_python, options.threads, options.rounds)
    rows: list[Row] = []
    for name in options.only:
        for row in SECTIONS[name](engines, options.models):
            rows.append(row)
            sys.stdout.write(" | ".join(row.cells()) + "\n")
            sys.stdout.flush()
    text = [
        "# Measurements",
        "",
        f"{date.today()}, {machine_line(options.threads)}. {llama_version(options.llamacpp_python)}",
        f"Medians of {options.rounds} rounds in which the engines take turns.",
        "",
        *table(rows),
    ]
    if options.plot:
        picture = options.out.with_suffix(".svg")
        picture.write_text(plot.draw(engines, options.models), encoding="utf-8")
        text += ["", f"![Speeds against size, threads, context and batch]({picture.name})"]
    options.out.write_text("\n".join(text) + "\n", encoding="utf-8")


main()
