"""The numbers that keywords admit, as exact as they are written: 0.1 is a tenth."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from rase_models.constraints.schema.keywords import TYPES, is_number
from rase_models.constraints.schema.negation import listed


@dataclass(frozen=True, slots=True)
class End:
    """Where numbers begin or end; itself not one of them where it `is_open`."""

    at: Fraction
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class NumberSet:
    """Numbers between two ends that are multiples of `step` and, where they are listed, among `values`."""

    low: End | None = None
    high: End | None = None
    step: Fraction | None = None
    values: frozenset[Fraction] | None = None

    @classmethod
    def of(cls, schema: dict[str, Any]) -> Self:
        """Return the numbers that the keywords of a schema admit, but for those that hold schemas."""
        kinds = schema.get("type", TYPES)
        steps = [exact(schema["multipleOf"])] if "multipleOf" in schema else []
        if "integer" in kinds and "number" not in kinds:
            steps.append(Fraction(1))
        values = listed(schema)
        return cls(
            _tightest(max, _ends(schema, "minimum", "exclusiveMinimum")),
            _tightest(min, _ends(schema, "maximum", "exclusiveMaximum")),
            common_multiple(steps) if steps else None,
            None if values is None else frozenset(exact(value) for value in values if is_number(value)),
        )

    def meet(self, other: Self) -> Self:
        """Return the numbers that are in both."""
        steps = [step for step in (self.step, other.step) if step is not None]
        given = [values for values in (self.values, other.values) if values is not None]
        return type(self)(
            _tightest(max, [end for end in (self.low, other.low) if end is not None]),
            _tightest(min, [end for end in (self.high, other.high) if end is not None]),
            common_multiple(steps) if steps else None,
            frozenset.intersection(*given) if given else None,
        )

    def __contains__(self, number: Fraction) -> bool:
        low, high = self.low, self.high
        return (
            (low is None or number > low.at or (number == low.at and not low.is_open))
            and (high is None or number < high.at or (number == high.at and not high.is_open))
            and (self.step is None or (number / self.step).denominator == 1)
            and (self.values is None or number in self.values)
        )

    @property
    def size(self) -> int:
        """What it takes to look at each part of it."""
        return 1 + len(self.values or ())

    @property
    def multiples(self) -> tuple[int | None, int | None]:
        """The least and the greatest number whose product with the step is between the ends, if any is."""
        step, low, high = self.step or Fraction(1), self.low, self.high
        least = None if low is None else math.ceil(low.at / step)
        most = None if high is None else math.floor(high.at / step)
        if low is not None and least is not None and low.is_open and least * step == low.at:
            least += 1
        if high is not None and most is not None and high.is_open and most * step == high.at:
            most -= 1
        return least, most


def exact(number: float) -> Fraction:
    """Return a number of JSON as it is written in decimals."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _ends(schema: dict[str, Any], closed: str, open: str) -> list[End]:
    return list(_given_ends(schema, closed, open))


def _given_ends(schema: dict[str, Any], closed: str, open: str) -> Iterator[End]:
    for key, is_open in ((closed, False), (open, True)):
        if key in schema:
            yield End(exact(schema[key]), is_open)


def _tightest(choose: Callable[[Iterable[Fraction]], Fraction], ends: list[End]) -> End | None:
    """Return the end that leaves the fewest numbers; an open one of two at the same place."""
    if not ends:
        return None
    at = choose(end.at for end in ends)
    return End(at, any(end.is_open for end in ends if end.at == at))


def common_multiple(steps: list[Fraction]) -> Fraction:
    """Return the least common multiple of numbers."""
    denominator = math.lcm(*(step.denominator for step in steps))
    return Fraction(math.lcm(*(int(step * denominator) for step in steps)), denominator)
