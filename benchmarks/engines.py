"""Runs rase and llama.cpp by turns, each in processes of its own."""

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Figures = dict[str, Any]
"""The names and values of a JSON object."""
_LLAMA = Path(__file__).with_name("llama.py")


@dataclass(frozen=True, slots=True)
class Work:
    """One measurement; see `rase bench --help`."""

    prompt: int = 0
    generated: int = 0
    depth: int = 0
    sequences: int = 1
    repeats: int = 2


@dataclass(frozen=True, slots=True)
class Engines:
    """Both engines on so many threads; `python` has llama-cpp-python, None leaves llama.cpp out."""

    python: str | None
    threads: int
    rounds: int

    def compare(self, model: Path, work: Work) -> tuple[Figures, Figures]:
        """Return medians over the rounds of rase and of llama.cpp (empty when left out)."""
        ours, theirs = [], []
        for _ in range(self.rounds):
            ours.append(self.rase(model, work))
            if self.python is not None:
                theirs.append(self.llama(model, work))
        return _medians(ours), _medians(theirs)

    def rase(self, model: Path, work: Work, *options: str, **environment: str) -> Figures:
        """Measure rase once."""
        arguments = {
            "--threads": self.threads,
            "--prompt-tokens": work.prompt,
            "--gen-tokens": work.generated,
            "--depth": work.depth,
            "--sequences": work.sequences,
            "--repeat": work.repeats,
        }
        flat = [str(part) for pair in arguments.items() for part in pair]
        command = [sys.executable, "-m", "rase_cli", "bench", str(model), *flat, "--json", *options]
        return _run(command, environment)

    def llama(self, model: Path, work: Work) -> Figures:
        """Measure llama.cpp once."""
        numbers = (self.threads, work.prompt, work.generated, work.depth, work.repeats)
        return _run([str(self.python), str(_LLAMA), str(model), *map(str, numbers)], {})


def _run(command: list[str], environment: dict[str, str]) -> Figures:
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-1000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def _medians(runs: list[Figures]) -> Figures:
    names = [name for name, value in runs[0].items() if isinstance(value, int | float)] if runs else []
    return {name: statistics.median(run[name] for run in runs) for name in names}
