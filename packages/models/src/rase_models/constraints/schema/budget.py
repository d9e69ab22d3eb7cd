"""How much it may take to make the schemas of one request ready."""

from rase_models.constraints.reasons import TOO_LARGE
from rase_models.constraints.repetitions import excess_of, repetitions
from rase_models.constraints.schema.negation import Inexpressible

MOST_STEPS = 30_000
"""About a third of a second; the largest of a thousand real schemas takes a tenth of it."""


_MOST_WRITTEN = 300_000
"""Characters of patterns as llguidance reads them, where `.` and `\\s` are long: a quarter of a second."""


class Exhausted(Inexpressible):
    """A budget is used up."""

    def __init__(self) -> None:
        super().__init__(TOO_LARGE)


class Budget:
    """What all schemas of a request may take together; counted, so that the same ones always go the same way.

    A step is a part that is prepared, or a look at two schemas side by side.
    """

    def __init__(self) -> None:
        self.steps = self.repetitions = self.written = 0

    def spend(self, steps: int = 1) -> None:
        """Count steps; raises Exhausted after too many."""
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise Exhausted

    def read(self, pattern: str) -> str | None:
        """Count the repetitions of a pattern; return what is wrong where there are too many, else None."""
        self.repetitions += repetitions(pattern)
        return excess_of(self.repetitions)

    def write(self, pattern: str) -> str | None:
        """Count the characters of a translated pattern; return what is wrong where there are too many."""
        self.written += len(pattern)
        return TOO_LARGE if self.written > _MOST_WRITTEN else None
