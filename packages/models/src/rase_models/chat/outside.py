"""What comes into a conversation from outside, in which control tokens are text like any other."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from json import dumps

from rase_core.errors import InvalidConversation

from rase_models.tokenizers.prompt_text import PromptText
from rase_models.tokenizers.special_tokens import SpecialTokens

_ROLES = frozenset(("user", "tool"))
_VARIABLES = frozenset(("documents",))
_PRIVATE = (range(0xE001, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))

Values = Mapping[str, object]


class MarkedConversation:
    """A conversation with a mark in every control token that is spelt out in what comes from outside.

    These are the messages of users and tools, and `documents`. Without such a spelling nothing is marked.
    """

    def __init__(self, messages: Sequence[Values], variables: Values, controls: SpecialTokens) -> None:
        """Raises InvalidConversation where no character is left for the mark."""
        self._controls = controls
        outside = chain((message for message in messages if message["role"] in _ROLES), _documents(variables))
        is_spelt = any(controls.is_in(text) for text in _texts_of(outside))
        self._mark = _unused((messages, variables)) if is_spelt else ""
        self.messages = [self._message(message) for message in messages]
        self.variables = {
            key: self._broken(value) if key in _VARIABLES else value for key, value in variables.items()
        }

    def read(self, rendered: str) -> str:
        """Return the prompt that these were rendered to."""
        if not self._mark:
            return rendered
        return PromptText(rendered.replace(_escaped(self._mark), self._mark), self._mark)

    def _message(self, message: Values) -> dict[str, object]:
        if message["role"] not in _ROLES:
            return dict(message)
        return {key: value if key == "role" else self._broken(value) for key, value in message.items()}

    def _broken(self, value: object) -> object:
        return _with_texts(value, self._broken_text) if self._mark else value

    def _broken_text(self, text: str) -> str:
        """Return a text with the mark behind the first character of each spelling."""
        pieces, start = list[str](), 0
        for place in self._controls.places(text):
            pieces.append(text[start : place + 1])
            start = place + 1
        return self._mark.join((*pieces, text[start:]))


def _documents(variables: Values) -> Iterator[object]:
    return (value for key, value in variables.items() if key in _VARIABLES)


def _texts(value: object) -> Iterator[str]:
    """Yield all strings of a JSON value, also the names in it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts_of(chain(value.keys(), value.values()))
    elif isinstance(value, Sequence):
        yield from _texts_of(value)


def _texts_of(values: Iterable[object]) -> Iterator[str]:
    return chain.from_iterable(map(_texts, values))


def _with_texts(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): _with_texts(item, change) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_with_texts(item, change) for item in value]
    return value


def _unused(value: object) -> str:
    """Return a private character that no string has, neither as it is nor as JSON may write it."""
    found = set[str]()
    escapes = False
    for text in _texts(value):
        found.update(text)
        escapes = escapes or "\\u" in text
    texts = list(_texts(value)) if escapes else []
    for code in chain.from_iterable(_PRIVATE):
        mark = chr(code)
        if mark not in found and not any(_escaped(mark) in text for text in texts):
            return mark
    raise InvalidConversation("the conversation has every private character of Unicode")


def _escaped(mark: str) -> str:
    return dumps(mark)[1:-1]
