"""How much a template may do: a hostile one must end in an error after about a second and some 100 MB."""

import time
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar

from rase_core.errors import TemplateError

ITEM = 32
"""What an item of a list counts, in characters."""

_SECONDS = 0.75
_SECONDS_PER_CHARACTER = 2e-6  # of the conversation; templates in use need a tenth of it
_LARGEST = 1 << 22  # characters of one value
_TOTAL = 1 << 27  # characters made in all


class Budget:
    """What is left for one rendering: time of this thread's CPU, size of a value, sum of all sizes.

    Time and sizes grow with the conversation (`given` characters in so many messages), so that a long one is
    no attack, even where a template adds each message to one growing text.
    """

    def __init__(self, given: int = 0, messages: int = 0) -> None:
        self._largest = _LARGEST + 4 * given
        self._left = _TOTAL + (64 + messages) * given
        self._end = time.thread_time() + _SECONDS + _SECONDS_PER_CHARACTER * given

    @property
    def largest(self) -> int:
        """The most characters of one value."""
        return self._largest

    def charge(self, size: int = 0) -> None:
        """Count a step that makes a value of this size. Raises TemplateError when the budget is spent."""
        self._left -= size
        if size > self._largest or self._left < 0:
            raise TemplateError("the chat template makes too much text", "use another template")
        if time.thread_time() > self._end:
            raise TemplateError("the chat template takes too long", "use another template")


_current: ContextVar[Budget] = ContextVar("budget")


def budget() -> Budget:
    """Return the budget of the rendering that is going on."""
    return _current.get()


@contextmanager
def spending(limit: Budget) -> Iterator[None]:
    """Make this the budget of what runs within."""
    token = _current.set(limit)
    try:
        yield
    finally:
        _current.reset(token)


def size_of(value: object) -> int:
    """Return what a value counts, in characters, without looking into it."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        return value.bit_length()
    if isinstance(value, list | tuple | dict | KeysView | ValuesView | ItemsView):
        return ITEM * len(value)
    return 0


def whole_size(*values: object) -> int:
    """Return what values count with all that is in them; stops counting above the largest size allowed.

    A list that holds another one twice counts it twice, as its text would.
    """
    limit = budget().largest
    total, waiting = 0, list(values)
    while waiting and total <= limit:
        value = waiting.pop()
        total += size_of(value)
        if isinstance(value, str | int):
            continue
        if isinstance(value, dict):
            waiting.extend(value.keys())
            waiting.extend(value.values())
        elif isinstance(value, list | tuple | KeysView | ValuesView | ItemsView):
            waiting.extend(value)
    return total
