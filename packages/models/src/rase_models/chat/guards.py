"""What each operator, method and filter of a template may cost, told before it is done."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from rase_core.errors import TemplateError

from rase_models.chat.budget import ITEM, budget, size_of, whole_size

Guard = Callable[..., int]
"""Takes the operands and returns the size of the result, or a little more."""

_WIDTH = re.compile(r"\d{5}|\*|\{[^}]*\{")
_MOST_INDENT = 1024
_MOST_DIGITS = 32
_MOST_BITS = 1 << 14  # of a number: to divide ones of millions takes seconds


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _sum(left: object, right: object) -> int:
    return _number(left, right) if isinstance(left, int) else size_of(left) + size_of(right)


def _number(*values: object) -> int:
    """Return the bits of numbers, which may be those of their product; TemplateError for too many."""
    return _limited(sum(value.bit_length() for value in values if isinstance(value, int)))


def _limited(bits: int) -> int:
    if bits > _MOST_BITS:
        raise TemplateError(f"the chat template makes a number of more than {_MOST_BITS} bits")
    return bits


def _product(left: object, right: object) -> int:
    if isinstance(right, str | list | tuple):
        left, right = right, left
    if isinstance(left, str | list | tuple) and isinstance(right, int):
        return size_of(left) * max(right, 0)
    return _sum(left, right)


def _power(base: object, exponent: object) -> int:
    if isinstance(base, int) and isinstance(exponent, int):
        return _limited(base.bit_length() * max(exponent, 0))
    return 0


def _percent(left: object, right: object) -> int:
    return formatted(left, right) if isinstance(left, str) else _number(left, right)


def formatted(text: str, *values: object) -> int:
    """Return the size of a format's result; TemplateError for a width that is computed or has five digits."""
    if _WIDTH.search(text):
        raise TemplateError("the chat template formats with a width that is not a small number")
    return whole_size(text, *values) + 10_000 * (text.count("%") + text.count("{"))


OPERATORS: Mapping[str, Guard] = {
    "+": _sum,
    "-": _number,
    "*": _product,
    "/": _number,
    "//": _number,
    "**": _power,
    "%": _percent,
}


def _replaced(text: object, old: object = "", new: object = "", count: object = -1) -> int:
    text, old, new = str(text), str(old), str(new)
    return len(text) + text.count(old) * len(new)


def _joined(separator: str, items: object = ()) -> int:
    if isinstance(items, str):
        return len(items) * (1 + len(separator))
    if not isinstance(items, list | tuple | dict):
        raise TemplateError("the chat template joins what is not a list")
    return whole_size(items) + len(separator) * len(items)


def _divided(text: str, separator: object = None, limit: object = -1) -> int:
    pieces = text.count(separator) if isinstance(separator, str) and separator else len(text) // 2
    return len(text) + ITEM * pieces


def _lines(text: str, keepends: object = False) -> int:
    return len(text) + ITEM * len(text)


def _same(text: str, *arguments: object) -> int:
    return len(text)


_KEEPING = _names(
    """capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit islower
    isnumeric isspace istitle isupper lower lstrip partition removeprefix removesuffix rfind rindex rpartition
    rstrip startswith strip swapcase title upper"""
)

TEXT_METHODS: Mapping[str, Guard] = {
    **dict.fromkeys(_KEEPING, _same),
    "replace": _replaced,
    "join": _joined,
    "split": _divided,
    "rsplit": _divided,
    "splitlines": _lines,
}
"""The methods of str that a template may call; `format` has a guard of its own."""


class OwnList(list[Any]):
    """A list that a template has written itself, so that to change it changes no conversation."""


_ADDING = frozenset(("append", "pop"))
"""These look into nothing."""

METHODS: Mapping[type, frozenset[str]] = {
    OwnList: frozenset(("count", "index", "copy", "append", "pop")),
    str: frozenset((*TEXT_METHODS, "format")),
    dict: frozenset(("get", "items", "keys", "values", "copy")),
    list: frozenset(("count", "index", "copy")),
    tuple: frozenset(("count", "index")),
    int: frozenset(),
    float: frozenset(),
    bytes: frozenset(),
}
"""By type, the first counts: the attributes that a template may see.

Types that are not here go by the sandbox's own rules.
"""


def method_cost(method: object, arguments: tuple[object, ...]) -> int:
    """Return what a call may make, by the method that is called and all its arguments."""
    owner = getattr(method, "__self__", None)
    if isinstance(owner, str):
        guard = TEXT_METHODS.get(getattr(method, "__name__", ""), _same)
        return guard(owner, *arguments)
    if isinstance(owner, OwnList) and getattr(method, "__name__", "") in _ADDING:
        return size_of(owner)
    if isinstance(owner, list | tuple):
        return whole_size(owner, *arguments)
    return whole_size(*arguments)


def _whole(*values: object, **named: object) -> int:
    return whole_size(*values, *named.values())


def _listed(value: object) -> int:
    return ITEM * len(value) if isinstance(value, str) else 0


def _indented(text: object, width: Any = 4, first: object = False, blank: object = False) -> int:
    size = len(width) if isinstance(width, str) else width
    if not isinstance(size, int) or size > _MOST_INDENT:
        raise TemplateError(f"the chat template indents by more than {_MOST_INDENT} characters")
    text = str(text)
    return len(text) + (len(text.splitlines()) + 1) * size


def _rounded(value: object, precision: Any = 0, method: object = "common") -> int:
    if not isinstance(precision, int) or abs(precision) > _MOST_DIGITS:
        raise TemplateError(f"the chat template rounds to more than {_MOST_DIGITS} digits")
    return 0


def _as_json(value: object, ensure_ascii: object = False, indent: Any = None, *others: object) -> int:
    margin = len(indent) if isinstance(indent, str) else indent or 0
    if not isinstance(margin, int) or margin > _MOST_INDENT:
        raise TemplateError(f"the chat template indents by more than {_MOST_INDENT} characters")
    return whole_size(value) * 2


def _integer(value: object, *others: object, **named: object) -> int:
    if isinstance(value, str) and len(value) > _MOST_BITS // 8:
        raise TemplateError(f"the chat template reads a number of {len(value)} characters")
    return 0


def _nothing(*values: object, **named: object) -> int:
    return 0


_CHEAP = _names(
    """abs d default first items last length count map reject rejectattr reverse safe select
    selectattr"""
)
_READING = _names(
    """capitalize dictsort e escape filesizeformat float forceescape groupby lower max min sort string title
    trim truncate unique upper urlencode wordcount"""
)

FILTERS: Mapping[str, Guard] = {
    **dict.fromkeys(_CHEAP, _nothing),
    **dict.fromkeys(_READING, _whole),
    "list": _listed,
    "replace": _replaced,
    "format": formatted,
    "indent": _indented,
    "int": _integer,
    "round": _rounded,
    "tojson": _as_json,
    "join": _nothing,
}
"""The filters that a template may use; `join` guards itself, since it may be given a generator."""

COMPARING_TESTS = _names("in eq == equalto ne != lt < lessthan le <= gt > greaterthan ge >=")


def check_readable(value: object) -> None:
    """Charge for reading all of a value, as comparing, hashing or writing it does."""
    if not isinstance(value, str):
        budget().charge(whole_size(value))
