"""A row of the report."""

from dataclasses import dataclass

COLUMNS = ("work", "rase", "llama.cpp", "result", "aim", "")


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured, and whether it is what was aimed at (None where there is no aim)."""

    work: str
    rase: str
    llama: str = ""
    result: str = ""
    aim: str = ""
    reached: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the columns."""
        mark = {True: "yes", False: "no", None: ""}[self.reached]
        return self.work, self.rase, self.llama, self.result, self.aim, mark


def ratio_row(work: str, ours: float, theirs: float | None, aim: float) -> Row:
    """Compare two speeds in tokens a second."""
    if theirs is None:
        return Row(work, f"{ours:.1f} tok/s", aim=f"{aim} x")
    ratio = ours / theirs
    return Row(work, f"{ours:.1f} tok/s", f"{theirs:.1f} tok/s", f"{ratio:.2f} x", f"{aim} x", ratio >= aim)


def most_row(work: str, value: float, limit: float, unit: str) -> Row:
    """Compare a value with the most that it should be."""
    return Row(work, f"{value:.2f} {unit}", "", "", f"under {limit:.2f} {unit}", value <= limit)


def least_row(work: str, value: float, limit: float, unit: str) -> Row:
    """Compare a value with the least that it should be."""
    return Row(work, f"{value:.2f} {unit}", "", "", f"{limit:.2f} {unit}", value >= limit)
