"""Numbers in the keywords of llguidance, which reckons with floating-point numbers."""

import math
import sys
from fractions import Fraction
from typing import Any

from rase_core.errors.engine_error import shown

from rase_models.constraints.schema.keywords import MOST, Schema
from rase_models.constraints.schema.negation import Inexpressible
from rase_models.constraints.schema.number_set import End, NumberSet, common_multiple, exact

_MOST_LISTED = 3
"""Multiples that are listed: of more, llguidance sees for certain that there are any."""

_MOST_STEP = 2**32 - 1
"""Of a step without its point, in llguidance."""

_NEXT_TO_ZERO = Fraction(1, 10**18)
"""What numbers begin with that end below 1, where 0 is none of them."""

_MOST_READ_PLACES = 8
"""Behind the point of a step: with more, llguidance reckons beyond 32 bits, and 1 is a multiple of 3e-17."""

_DIVISORS = sorted(2**twos * 5**fives for twos in range(12) for fives in range(6))
_MOST_PLACES = 400

_FARTHEST = 9 * 10**18
"""Where ranges end at the latest that are to go further: llguidance has none with such ends."""

_LEAST_WHOLE = -(2**63 - 1024)
"""Where those of whole numbers begin at the earliest."""


def spelt(numbers: NumberSet) -> Schema:
    """Return a schema of these numbers; raises Inexpressible where llguidance would take others for them."""
    if numbers.values is not None:
        return _listing(sorted(value for value in numbers.values if value in numbers))
    if numbers.step is None:
        return _range(numbers)
    return _multiples(numbers, numbers.step)


def remainders(numbers: NumberSet) -> int:
    """Return how many remainders llguidance may have to follow, as digits come; each takes it some 30 us."""
    if numbers.values is not None or numbers.step is None or numbers.step > _MOST_STEP:
        return 0
    return _digits(numbers.step)


def is_told(value: object) -> bool:
    """Whether all numbers of a JSON value are the same as doubles."""
    match value:
        case dict():
            return all(map(is_told, value.values()))
        case list():
            return all(map(is_told, value))
        case int():
            return value == MOST or (abs(value) <= MOST and int(float(value)) == value)
        case float():
            return abs(value) <= MOST and _is_parsed(value)
        case _:
            return True


def _is_parsed(number: float) -> bool:
    """Whether llguidance reads and writes a number as it is.

    It rounds all digits to a double, then moves the point. Between two spellings it may choose the other.
    """
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    places, parsed = len(fraction) - int(exponent or 0), float(whole + fraction)
    if 2 * abs(Fraction(number) - exact(number)) == Fraction(10) ** -places:
        return False
    while places > sys.float_info.max_10_exp:
        parsed, places = parsed / 1e308, places - sys.float_info.max_10_exp
    return abs(number) == (parsed / float(f"1e{places}") if places > 0 else parsed * float(f"1e{-places}"))


def _listing(values: list[Fraction]) -> Schema:
    return {"enum": [_json(value) for value in values]} if values else False


def _json(value: Fraction) -> float:
    number = int(value) if value.denominator == 1 else float(value)
    if exact(number) != value or not is_told(number):
        raise Inexpressible(f"{shown(number)} has too many digits to be told exactly")
    return number


def _multiples(numbers: NumberSet, step: Fraction) -> Schema:
    least, most = numbers.multiples
    if least is not None and most is not None and most - least < _MOST_LISTED:
        return _listing([number * step for number in range(least, most + 1)])
    if step.denominator == 1:
        return {"type": "integer"} | _whole_ends(least, most, step) | ({} if step == 1 else _divisors(step))
    if least is None and most is None:
        return {"anyOf": [_fractions(None, None, coarser) for coarser in _coarser(step)]}
    return {"anyOf": [*_ends(least, most, step), *(_fractions(*side, step) for side in _sides(least, most))]}


def _whole_ends(least: int | None, most: int | None, step: Fraction) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if least is not None:
        schema["minimum"] = _first_double(max(least * step, Fraction(_LEAST_WHOLE)))
    if most is not None:
        schema["maximum"] = MOST + 1 if most * step >= MOST else _last_double(most * step)
    return schema


def _fractions(least: int | None, most: int | None, step: Fraction) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "number"}
    if least is not None:
        schema["minimum"] = _start(least * step)
    if most is not None:
        schema["maximum"] = -_start(-most * step)
    return schema | _divisors(step)


def _ends(least: int | None, most: int | None, step: Fraction) -> list[Schema]:
    """Return the ends in a list: in a range they have no zeros behind them, which multiples may need."""
    ends = [number * step for number in (least, most) if number is not None]
    ends = [end for end in ends if abs(end) <= _FARTHEST]
    return [_listing(ends)] if ends else []


def _sides(least: int | None, most: int | None) -> list[tuple[int | None, int | None]]:
    """Return what is below 0, and the rest: in a range that goes through it, such numbers end in no zeros."""
    is_through = (least is None or least < 0) and (most is None or most >= 0)
    return [(least, -1), (0, most)] if is_through else [(least, most)]


def _coarser(step: Fraction) -> list[Fraction]:
    """Return a step, and those of its multiples that fewer digits tell: llguidance wants the zeros behind."""
    steps = [step]
    for places in range(_places(step) - 1, 0, -1):
        coarser = common_multiple([step, Fraction(1, 10**places)])
        if _is_read(coarser) and _digits(coarser) < _digits(steps[-1]):
            steps.append(coarser)
    return steps


def _divisors(step: Fraction) -> dict[str, Any]:
    """Return keywords for the multiples of a step, which two other steps may have in common."""
    if _is_read(step):
        return {"multipleOf": _json(step)}
    if step > _MOST_STEP:
        raise Inexpressible(f"multiples of numbers beyond {_MOST_STEP} cannot be told exactly")
    unit = Fraction(1, 10 ** _places(step))
    for part in (step / divisor for divisor in _DIVISORS):
        if (
            _places(step) <= _MOST_READ_PLACES
            and _is_read(part)
            and _is_read(unit)
            and _have_in_common(part, unit, step)
        ):
            return {"multipleOf": _json(part), "allOf": [{"multipleOf": _json(unit)}]}
    raise Inexpressible(f"multiples of {float(step)} cannot be told exactly")


def _digits(number: Fraction) -> int:
    """Return a number without its point and the zeros at its end."""
    return int(str(int(number * 10 ** _places(number))).rstrip("0"))


def _have_in_common(one: Fraction, other: Fraction, step: Fraction) -> bool:
    scale = 10 ** max(_places(one), _places(other))
    left, right = int(one * scale), int(other * scale)
    return left * right <= _MOST_STEP and Fraction(math.lcm(left, right), scale) == step


def _is_read(step: Fraction) -> bool:
    """Whether llguidance finds the digits of a step, for which it multiplies by 10 again and again."""
    if step > _MOST_STEP or not is_told(float(step)):
        return False
    value, places = float(step), 0
    while value % 1 and places < _MOST_PLACES:
        value, places = value * 10, places + 1
    has_room = value == 1 or places <= _MOST_READ_PLACES
    return has_room and 0 < value <= _MOST_STEP and Fraction(int(value), 10**places) == step


def _places(number: Fraction) -> int:
    """Return how many digits a number has behind its point."""
    return next(places for places in range(_MOST_PLACES) if 10**places % number.denominator == 0)


def _range(numbers: NumberSet) -> Schema:
    low, high = numbers.low, numbers.high
    if low is not None and high is not None and not _has_room(low, high):
        return False
    first = None if low is None else _closed_next_to_whole(low, high)
    last = None if high is None else _mirrored(_closed_next_to_whole(_mirrored(high), low and _mirrored(low)))
    if first is not None and last is not None and not _has_room(first, last):
        raise Inexpressible("its numbers have too many digits to be told exactly")
    schema: dict[str, Any] = {"type": "number"}
    if first is not None:
        schema["exclusiveMinimum" if first.is_open else "minimum"] = _start(first.at)
    if last is not None:
        schema["exclusiveMaximum" if last.is_open else "maximum"] = -_start(-last.at)
    return schema


def _has_room(low: End, high: End) -> bool:
    return low.at < high.at or (low.at == high.at and not low.is_open and not high.is_open)


def _closed_next_to_whole(low: End, high: End | None) -> End:
    """Return a beginning after which llguidance does not count a whole number in that is left out."""
    at = low.at
    if not low.is_open or at < 0 or at.denominator > 1 or high is None or high.at >= at + 1:
        return low
    return End(max(exact(math.nextafter(float(at), math.inf)), _NEXT_TO_ZERO))


def _mirrored(end: End) -> End:
    return End(-end.at, end.is_open)


def _start(value: Fraction) -> float:
    """Return what a range begins with that is to begin with a value."""
    return _first_double(max(value, Fraction(-_FARTHEST)))


def _last_double(value: Fraction) -> float:
    return -_first_double(-value)


def _first_double(value: Fraction) -> float:
    """Return the first number from a value up that a double tells."""
    if abs(value) > MOST:
        raise Inexpressible(f"its limits are beyond {MOST}")
    near = float(value)
    if value.denominator == 1:
        return int(near if near >= value else math.nextafter(near, math.inf))
    first = near if exact(near) >= value else math.nextafter(near, math.inf)
    if not is_told(first):
        raise Inexpressible("its limits have too many digits to be told exactly")
    return first
