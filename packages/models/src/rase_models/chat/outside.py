"""What comes into a conversation from outside, in which control tokens are text like any other."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from rase_core.errors import InvalidConversation, TemplateError

from rase_models.chat.private_characters import escaped, texts_of, unused_characters
from rase_models.tokenizers.prompt_text import PromptText
from rase_models.tokenizers.special_tokens import SpecialTokens

_ROLES = frozenset(("user", "tool"))
_VARIABLES = frozenset(("documents",))

Values = Mapping[str, object]
"""In the plain types of JSON."""

Render = Callable[["MarkedConversation"], str]


def prompt_of(
    messages: Sequence[Values],
    variables: Values,
    controls: SpecialTokens,
    written: Sequence[str],
    render: Render,
) -> str:
    """Return the prompt that `render` makes, in which nothing from outside spells a control token.

    A template may join what stood apart within a string, as it does when it takes `/no_think` out. So it is
    rendered once more with a character of each control token marked wherever strings have it, which counts
    where the prompt is the same: a template that looks for such a character may write another one.
    """
    marked = MarkedConversation(messages, variables, controls, written)
    prompt = marked.read(render(marked))
    for characters in _characters_of(controls):
        if marked.has(characters):
            try:
                thorough = MarkedConversation(messages, variables, controls, written, characters)
                other = thorough.read(render(thorough))
            except (InvalidConversation, TemplateError):
                continue
            if other == prompt:
                return other
    return prompt


class MarkedConversation:
    """A conversation in which no control token is spelt out by what comes from outside.

    That is the messages of users and tools, and `documents`. Where a control token begins in their strings,
    and where what stands beside a string could make one of its end or beginning, a private character takes
    the place of one of the string's, so that all lengths stay. Without such places nothing is changed.
    """

    def __init__(
        self,
        messages: Sequence[Values],
        variables: Values,
        controls: SpecialTokens,
        written: Sequence[str],
        everywhere: frozenset[str] = frozenset(),
    ) -> None:
        """`written` is what the template has of its own, `everywhere` has a private character always.

        Raises InvalidConversation for want of a mark.
        """
        self._controls = controls
        self._texts = set(texts_of(*_outside(messages, variables)))
        places = {text[place] for text in self._texts for place in self._places(text)}
        replaced = sorted(places | everywhere)
        self._mark, self._stand_ins = "", dict[str, str]()
        if replaced:
            unused = unused_characters(*messages, *variables.items(), *written)
            self._mark = _next(unused)
            self._stand_ins = {character: _next(unused) for character in replaced}
        self._everywhere = str.maketrans({character: self._stand_ins[character] for character in everywhere})
        self.messages = [self._message(message) for message in messages]
        self.variables = {
            key: self._broken(value) if key in _VARIABLES else value for key, value in variables.items()
        }

    def has(self, characters: Iterable[str]) -> bool:
        """Whether one of the characters is in what comes from outside."""
        return any(character in text for text in self._texts for character in characters)

    def read(self, rendered: str) -> str:
        """Return the prompt that these were rendered to."""
        if not self._stand_ins:
            return rendered
        if "\\u" in rendered:
            for stand_in in self._stand_ins.values():
                rendered = rendered.replace(escaped(stand_in), stand_in)
        for character, stand_in in self._stand_ins.items():
            rendered = rendered.replace(stand_in, f"{self._mark}{character}{self._mark}")
        prompt = PromptText(rendered, self._mark)
        return prompt if self._differs(prompt) else str(prompt)

    def _differs(self, prompt: PromptText) -> bool:
        """Whether a control token would be found in a prompt that the marks forbid."""
        marked = self._controls.split(prompt.marked)
        allowed = [part if isinstance(part, int) else part.replace(prompt.mark, "") for part in marked]
        return allowed != list(self._controls.split(prompt))

    def _message(self, message: Values) -> dict[str, object]:
        if message["role"] not in _ROLES:
            return dict(message)
        return {key: value if key == "role" else self._broken(value) for key, value in message.items()}

    def _broken(self, value: object) -> object:
        return _with_texts(value, self._broken_text) if self._stand_ins else value

    def _broken_text(self, text: str) -> str:
        """Return a text in which stand-ins are in the places of control tokens."""
        pieces, start = list[str](), 0
        for place in sorted(set(self._places(text))):
            pieces += text[start:place], self._stand_ins[text[place]]
            start = place + 1
        return "".join((*pieces, text[start:])).translate(self._everywhere)

    def _places(self, text: str) -> Iterator[int]:
        return chain(self._controls.places(text), self._controls.edges.places(text))


def _characters_of(controls: SpecialTokens) -> Iterator[frozenset[str]]:
    """Yield what the tokens begin with, and what comes second; no letters, of which names consist."""
    for at in range(2):
        found = {token[at] for token in controls.texts if len(token) > at}
        yield frozenset(character for character in found if not (character.isalnum() or character == "_"))


def _outside(messages: Sequence[Values], variables: Values) -> Iterator[object]:
    yield from (message for message in messages if message["role"] in _ROLES)
    yield from (value for key, value in variables.items() if key in _VARIABLES)


def _with_texts(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _with_texts(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_texts(item, change) for item in value]
    return value


def _next(unused: Iterator[str]) -> str:
    character = next(unused, None)
    if character is None:
        raise InvalidConversation("the conversation has every private character of Unicode")
    return character
