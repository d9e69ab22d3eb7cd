"""What a batch is made of."""

from dataclasses import dataclass

from rase_core.deadline import check_timeout
from rase_core.errors import InvalidParameter
from rase_core.generation import Generation

from rase_models.request import Question


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A question to a model; the id is for whoever reads the results."""

    id: str
    model_id: str
    question: Question


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How a batch is worked off.

    Attributes:
        concurrency: the most tasks under way.
        timeout: the most seconds of a try of a task, where its own limit is not lower.
        max_tokens: the most tokens of an answer, where the task's own limit is not lower.
        retries: how often a task is tried again after a failure that may pass.
    """

    concurrency: int = 32
    timeout: float | None = None
    max_tokens: int | None = None
    retries: int = 2

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("retries", 0), ("max_tokens", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidParameter(name, value, f"a whole number of at least {least}")
        check_timeout(self.timeout)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """How a task ended: with the answers to each choice, or an error.

    `started` and `ended` are seconds since 1970, of the first and the last of so many `tries`.
    """

    task: BatchTask
    generations: tuple[Generation, ...]
    error: Exception | None
    started: float
    ended: float
    tries: int

    @property
    def tokens(self) -> int:
        """How many tokens were generated."""
        return sum(len(generation.tokens) for generation in self.generations)
