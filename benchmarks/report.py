"""The parts that all reports have."""

import platform
from pathlib import Path

from rows import COLUMNS, Row


def machine_line(threads: int) -> str:
    """Say what was measured on."""
    from rase_models.backends.cpu.instruction_set import instruction_set

    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text(encoding="utf-8").splitlines() if "model name" in line]
        model = names[0].partition(":")[2].strip() if names else model
    return f"{model}, {threads} threads, {instruction_set().name}, Python {platform.python_version()}"


def table(rows: list[Row]) -> list[str]:
    """Return a Markdown table."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *(row.cells() for row in rows)]
    return [f"| {' | '.join(cells)} |" for cells in lines]
